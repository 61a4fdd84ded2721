"""Where a simulated cluster's inputs and facts go: the port between the shell and what keeps its state.

`append` is called before the inputs are applied, and its return is the promise that they survive the death of the
process; `keep` takes facts, which follow from the inputs and may be written whenever it suits.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Protocol

from hanse.model.errors import OutOfRange
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import FACTS_BATCH_MAX, Fact, FactBatch
from hanse.simcluster.inputs import Input

MEMORY_FACTS_MAX: Final = 200_000


class FactReader(Protocol):
    """Reads the pod log in order, while it grows."""

    def read(self) -> FactBatch:
        """The next facts, about FACTS_BATCH_MAX; none if there are no more yet. Raises OutOfRange."""
        ...

    def close(self) -> None:
        """End the reading."""
        ...


class Storage(Protocol):
    """Keeps what happened to one cluster."""

    @property
    def path(self) -> str:
        """Where, "" if nowhere."""
        ...

    @property
    def first_seq(self) -> int:
        """Oldest position of the pod log that is kept."""
        ...

    def append(self, now_ms: int, inputs: Sequence[Input]) -> None:
        """Make inputs durable. Raises Unavailable if that is not possible now; then none of them is kept."""
        ...

    def keep(self, facts: Sequence[Fact]) -> None:
        """Take facts, in order."""
        ...

    def facts_from(self, seq: int) -> FactReader:
        """A reader that begins at a position. Raises OutOfRange if it is no longer kept."""
        ...

    def tidy(self, engine: Engine) -> None:
        """Housekeeping between two calls, when `engine` has done everything that was appended."""
        ...

    def close(self) -> None:
        """Write out what is buffered and let go."""
        ...


class MemoryStorage:
    """Keeps nothing but the newest facts: for simulations and tests, where a process is a cluster's whole life."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._facts: list[Fact] = []
        self._first_seq = 1

    @property
    def path(self) -> str:
        return ""

    @property
    def first_seq(self) -> int:
        return self._first_seq

    def append(self, now_ms: int, inputs: Sequence[Input]) -> None:
        return

    def keep(self, facts: Sequence[Fact]) -> None:
        self._facts.extend(facts)
        if len(self._facts) > 2 * MEMORY_FACTS_MAX:
            del self._facts[:-MEMORY_FACTS_MAX]
            self._first_seq = self._facts[0].seq

    def facts_from(self, seq: int) -> "MemoryReader":
        return MemoryReader(self, max(1, seq))

    def read(self, seq: int) -> FactBatch:
        """Facts from a position on."""
        if seq < self._first_seq:
            raise OutOfRange(f"the pod log begins at {self._first_seq}, {seq} is no longer kept")
        at = bisect_left(self._facts, seq, key=lambda fact: fact.seq)
        return FactBatch(self._names, self._facts[at : at + FACTS_BATCH_MAX])

    def tidy(self, engine: Engine) -> None:
        return

    def close(self) -> None:
        return


class MemoryReader:
    """Reads MemoryStorage."""

    def __init__(self, storage: MemoryStorage, seq: int) -> None:
        self._storage = storage
        self._seq = seq

    def read(self) -> FactBatch:
        found = self._storage.read(self._seq)
        if found.facts:
            self._seq = found.facts[-1].seq + 1
        return found

    def close(self) -> None:
        return
