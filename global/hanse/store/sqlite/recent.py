"""What was written or read lately, by key, so that most reads need neither the file nor a thread.

The file is locked by one process, so every change passes through here, and what is kept can be exact: an entry is
the key as it is at the *told* revision, the one up to which the store's watches were told. Two things are behind or
ahead of that revision, and both are told apart by revisions:

* a read of the file that began before newer changes were told: what it found is not kept;
* a read of the file that saw changes which are not told yet: until they are, nothing is answered from here, because
  a reader must never see the store go back.

What is not known any more (a commit whose outcome is not known, changes that are only in the file) empties all of it.

Rejected: keeping every live key (a million of them), and a cache in each component, each of which would have to find
out by itself when its copy is stale. Those that are right over any store, because a guard protects them, exist too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hanse.store.contract import Event, EventKind, KeyValue

RECENT_KEYS_MAX: Final = 32_768
VALUE_BYTES_MAX: Final = 4 * 1_024
"""A larger value is not kept, so that all of it stays below RECENT_KEYS_MAX times this."""

_UNKNOWN: Final = KeyValue("", b"", 0, 0)
"""Stands for a key that is not kept."""


class Recent:
    """Some keys of a store as they are at its told revision; a key that is known to be absent is kept as None.

    Keys are kept in two generations. What is written goes to the young one; when that is full it becomes the old one,
    and what the old one held is given up, so nothing has to be put in order for each key.
    """

    def __init__(self, keys_max: int = RECENT_KEYS_MAX) -> None:
        self._young_max = keys_max // 2
        self._young: dict[str, KeyValue | None] = {}
        self._old: dict[str, KeyValue | None] = {}
        self._seen = 0

    def find(self, keys: Sequence[str], *, told: int) -> dict[str, KeyValue] | None:
        """Those of the keys that exist at revision `told`; None if that is not known of all of them."""
        if told < self._seen:
            return None
        young, old = self._young, self._old
        found: dict[str, KeyValue] = {}
        for key in keys:
            kv = young[key] if key in young else old.get(key, _UNKNOWN)
            if kv is _UNKNOWN:
                return None
            if kv is not None:
                found[key] = kv
        return found

    def tell(self, events: Iterable[Event]) -> None:
        """These changes are told now."""
        young = self._young
        for event in events:
            kv = event.kv
            young[kv.key] = _kept(kv) if event.kind is EventKind.PUT else None
        self._age()

    def learn(self, keys: Sequence[str], found: Mapping[str, KeyValue], *, revision: int, told: int) -> None:
        """The file was read: of these keys, it held `found` at `revision`; the store has told up to `told` by now."""
        self.see(revision)
        if revision >= told:
            self._young.update((key, _kept(found[key]) if key in found else None) for key in keys)
            self._age()

    def see(self, revision: int) -> None:
        """The file was read at this revision, for something that is not kept here."""
        self._seen = max(self._seen, revision)

    def forget(self) -> None:
        """Nothing is known any more."""
        self._young, self._old = {}, {}

    def _age(self) -> None:
        if len(self._young) >= self._young_max:
            self._young, self._old = {}, self._young


def _kept(kv: KeyValue) -> KeyValue:
    return kv if len(kv.value) <= VALUE_BYTES_MAX else _UNKNOWN
