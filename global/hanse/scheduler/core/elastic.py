"""How large an elastic gang becomes: as many pods as fit, at least its minimum.

The sets of a gang grow together from their minima towards their counts, then each alone as far as it can, in whole
slices. Both by bisection, since a gang that fits also fits with fewer pods. For a gang of one set the answer is the
largest that fits; for several it is one to which no set can add, though another mix may have more pods in all.

A gang is sized when it is bound, and keeps its size for the whole attempt.
"""

from collections.abc import Callable

from hanse.model.request import GangRequest

Holds = Callable[[GangRequest], bool]


def largest(request: GangRequest, holds: Holds) -> GangRequest:
    """The gang with as many pods as hold.

    Args:
        holds: whether a gang of some size fits; it does at the minima, and not with all pods.
    """
    spans = [(s.count - s.least) // s.step for s in request.sets]
    whole = max(spans)

    def counts(grown: int) -> list[int]:
        pairs = zip(request.sets, spans, strict=True)
        return [s.count if grown == whole else s.least + span * grown // whole * s.step for s, span in pairs]

    sizes = counts(_last(0, whole - 1, lambda grown: holds(request.sized(counts(grown)))))
    for i, s in enumerate(request.sets):
        with_more = [(*sizes[:i], size, *sizes[i + 1 :]) for size in range(sizes[i], s.count + 1, s.step)]
        at = _last(0, len(with_more) - 1, lambda at, sizes=with_more: holds(request.sized(sizes[at])))  # type: ignore[misc]
        sizes = list(with_more[at])
    return request.sized(sizes)


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The last number that holds, if all up to it do; `low` does."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
