"""Where small work goes: pods that one host holds together.

The declared score, smaller first: (1) how many kinds of whole things it breaks, from the host up: none if the host
is broken already, one for a whole host in a broken rack, two for a whole rack in a broken block, …; (2) what a host
of its class offers beside each GPU: a pod within the share of every class leaves the richer ones to those that are
not, and pods without GPUs prefer hosts without; (3) free GPUs of the host; (4) GPUs of the host; (5) whole hosts of
the lowest domain, then of the next, …: the emptiest places stay empty. Ties go by canonical order. A thing is whole
while every GPU in it is free, whatever the flavor.

All of this is in the shape, so the choice is the same above and below. Below, `packing` in the agent's core then
chooses among the hosts that the shape holds equal; pods that are not exact it places by itself.
"""

from hanse.shape.capacity import Cap
from hanse.shape.domains import Leaf
from hanse.shape.solve import Found, Take

Score = tuple[int, ...]


def on_one_host(cap: Cap, n: int) -> Found:
    """The best single host for n pods; `cap.peak[-1]` must be at least n."""
    path: list[tuple[int, Cap]] = []
    while cap.kids:
        i = min(_candidates(cap, n))[1]
        path.append((i, cap.kids[i][0]))
        cap = cap.kids[i][0]
    _, i, most = _best_bin(cap, n)
    found = Found((1, most), Take(((i, 1, n),)))
    for at, kid in reversed(path):
        half = len(found.cost) // 2
        cost = (1, *found.cost[:half], kid.fit, *found.cost[half:])
        found = Found(cost, Take((), ((at, 1, found.take),)))
    return found


def score(cap: Cap, n: int) -> Score | None:
    """The score of the best host of a domain, None if no host holds n pods."""
    if cap.peak[-1] < n:
        return None
    found = cap.single.get(n)
    if found is None:
        found = min(_candidates(cap, n))[0] if cap.kids else _best_bin(cap, n)[0]
        if len(cap.single) >= 16:
            cap.single.clear()
        cap.single[n] = found
    return found


def _candidates(cap: Cap, n: int) -> list[tuple[Score, int]]:
    out: list[tuple[Score, int]] = []
    for i, (kid, _) in enumerate(cap.kids):
        below = score(kid, n)
        if below is not None:
            out.append(((below[0] + kid.whole, *below[1:], kid.whole_hosts), i))
    return out


def _best_bin(cap: Cap, n: int) -> tuple[Score, int, int]:
    """Score, bin and capacity of the best host of a lowest domain."""
    node, rich = cap.node, () if cap.lens is None else cap.lens.rich
    richness = [rich[c] for c, _, _ in node.bins] if rich and isinstance(node, Leaf) else None
    return min(
        [
            ((int(0 < full == free), richness[i] if richness else 0, free, full), i, most)
            for most, _, i, free, full in cap.hist
            if most >= n
        ]
    )
