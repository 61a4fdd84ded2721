"""What changed since when: all that watchers of a cluster need.

For each object the version at which it last changed, in the order of these versions. A watcher that was away asks for
everything after its version and gets each object once, as it is now: one entry an object, which can never overflow.
"""

from hanse.simcluster.inputs import GangId

Changed = GangId | int
"""What changed: a gang, or a node by index."""


class ChangeIndex:
    """Objects in the order of their last change."""

    def __init__(self) -> None:
        self._changed_at: dict[Changed, int] = {}

    def touch(self, thing: Changed, version: int) -> None:
        """A thing changed; versions never go back."""
        self._changed_at.pop(thing, None)
        self._changed_at[thing] = version

    def drop(self, thing: Changed) -> None:
        """A thing is of no interest any more."""
        self._changed_at.pop(thing, None)

    def since(self, version: int) -> list[tuple[Changed, int]]:
        """Everything that changed after a version, with the version of its last change, oldest first."""
        found: list[tuple[Changed, int]] = []
        for entry in reversed(self._changed_at.items()):
            if entry[1] <= version:
                break
            found.append(entry)
        found.reverse()
        return found
