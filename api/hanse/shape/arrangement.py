"""What `together` found, in the terms of the rest: what all sets take in one, and the seat of each.

The takes of all sets name places of the shape as it was before the gang: once one set is on a host, the shape no
longer tells that host from others with as much left, and which of them another set joins would be lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hanse.shape.areas import P
from hanse.shape.ask import SetAsk
from hanse.shape.decision import MixTake
from hanse.shape.mixes import Piece
from hanse.shape.seat import Seat, exclusive_depths, seat_of
from hanse.shape.take import Take
from hanse.shape.together import Found, Together


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A gang of several sets in one ground.

    Attributes:
        seats: (position of the set, its seat beside no other set of the gang).
        take: of all sets in one.
        proven: nothing costs less.
    """

    seats: list[tuple[int, Seat]]
    take: MixTake
    proven: bool


def arrangement(search: Together[P], found: Found, sets: Sequence[SetAsk]) -> Arrangement:
    """What a search found."""
    mixes = [tuple(state) for state in found.states.tolist()]
    groups = sorted({piece.group for piece in found.pieces})
    by_group = {g: tuple([piece for piece in found.pieces if piece.group == g]) for g in groups}
    whole = tuple([(g, _take(by_group[g], lambda state: state)) for g in groups])
    seats = [(i, _seat(search, i, s, by_group, mixes)) for i, s in enumerate(sets)]
    return Arrangement(seats, MixTake(tuple([s.pod for s in sets]), tuple(mixes), whole), found.proven)


def _seat(
    search: Together[P], i: int, s: SetAsk, by_group: dict[int, tuple[Piece, ...]], mixes: list[tuple[int, ...]]
) -> Seat:
    used = [(g, pieces) for g, pieces in by_group.items() if any(mixes[piece.state][i] for piece in pieces)]
    takes = [(g, _take(pieces, lambda state: mixes[state][i])) for g, pieces in used]
    costs = [search.cost_of(i, pieces) for _, pieces in used]
    return seat_of(s, search.views_of(i), takes, costs, exclusive_depths(search.ladders, s))


def _take(pieces: Sequence[Piece], pods: Callable[[int], int]) -> Take:
    """The pieces of one domain as a take, leaving out those that give no pods.

    Of places that are alike the first by name goes to the first set of the gang: to a leader, before its workers.
    """
    ordered = sorted(pieces, key=lambda piece: -piece.state)
    given = [(piece, n) for piece in ordered if (n := pods(piece.state))]
    if not all(piece.below for piece, _ in given):
        hosts: dict[tuple[int, int], int] = {}
        for piece, n in given:
            hosts[piece.index, n] = hosts.get((piece.index, n), 0) + 1
        return Take(tuple([(index, many, n) for (index, n), many in hosts.items()]))
    return Take((), tuple([(piece.index, 1, _take(piece.below, pods)) for piece, _ in given]))
