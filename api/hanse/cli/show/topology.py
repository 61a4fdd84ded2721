"""What a pod set asks of the topology, in words."""

from collections.abc import Iterable, Iterator
from typing import Protocol


class SliceLike(Protocol):
    """A slice layer, of the model or of the wire."""

    @property
    def size(self) -> int:
        """Pods of a group."""
        ...

    @property
    def level(self) -> str:
        """Level of the domain that holds a group."""
        ...

    @property
    def exclusive(self) -> bool:
        """Nobody else may use the domain."""
        ...

    @property
    def ragged(self) -> bool:
        """The last group may be smaller."""
        ...

    @property
    def preferred(self) -> bool:
        """Kept where possible."""
        ...


class SpreadLike(Protocol):
    """How many pods one domain may hold, of the model or of the wire."""

    @property
    def level(self) -> str:
        """Level of the domains."""
        ...

    @property
    def max_pods(self) -> int:
        """Pods in one of them."""
        ...


class GroupLike(Protocol):
    """A group of the model, or its message."""

    @property
    def name(self) -> str:
        """Which sets."""
        ...

    @property
    def level(self) -> str:
        """Level of the domain that holds them."""
        ...


class DevicesLike(Protocol):
    """What the GPUs of each pod share, of the model or of the wire."""

    @property
    def kind(self) -> str:
        """Kind of the group of devices."""
        ...

    @property
    def nic(self) -> bool:
        """With a network interface."""
        ...


def topology_words(
    required: str,
    preferred: str,
    *,
    slices: Iterable[SliceLike],
    balanced: str,
    spread: SpreadLike | None,
    same: Iterable[str],
    group: GroupLike | None,
    devices: DevicesLike | None,
) -> Iterator[str]:
    """One part of a sentence for each thing that is asked."""
    if required:
        yield f"in one {required}"
    if group is not None and group.level:
        yield f"with all of {group.name} in one {group.level}"
    if preferred:
        yield f"rather in one {preferred}"
    for one in slices:
        rest = " (the last may be smaller)" if one.ragged else ""
        yield (
            f"{'rather ' if one.preferred else ''}each {one.size} in one {one.level}"
            + (" alone" if one.exclusive else "")
            + rest
        )
    if balanced:
        yield f"evenly over each {balanced}"
    if spread is not None and spread.max_pods:
        yield f"at most {spread.max_pods} in one {spread.level}"
    if devices is not None and devices.kind:
        yield f"the GPUs of each on one {devices.kind}{' with a nic' if devices.nic else ''}"
    yield from (f"all with one {key}" for key in same)
