"""What every log line about a gang says: job, attempt, part, the binding's revision, and the trace.

Reports and moves know a gang by its key; revision and trace come with its binding, down the link. Both ends of the
link keep them for as long as the binding is desired.
"""

from collections.abc import Iterable

from hanse.model.desired import Binding
from hanse.model.fence import GangKey
from hanse.model.trace import trace_id


class GangLogs:
    """Revision and trace of the gangs of one pool."""

    def __init__(self) -> None:
        self._known: dict[GangKey, tuple[int, str]] = {}

    def learn(self, bindings: Iterable[Binding]) -> None:
        """Bindings are new or changed. One that is to stop travels without its trace, which stays what it was."""
        for binding in bindings:
            known = self._known.get(binding.key, (0, ""))
            self._known[binding.key] = (binding.revision, trace_id(binding.trace) or known[1])

    def forget(self, gone: Iterable[GangKey]) -> None:
        """Bindings are gone."""
        for key in gone:
            self._known.pop(key, None)

    def learn_all(self, bindings: Iterable[Binding]) -> None:
        """These are all that there are."""
        found = {binding.key: binding for binding in bindings}
        self.forget([key for key in self._known if key not in found])
        self.learn(found.values())

    def fields(self, key: GangKey) -> dict[str, object]:
        """What a line about the gang says of it; only the key of one that is not known."""
        revision, trace = self._known.get(key, (0, ""))
        said: dict[str, object] = {"job": key.job, "attempt": key.attempt, "part": key.part}
        return {**said, "revision": revision, "trace": trace} if revision else said
