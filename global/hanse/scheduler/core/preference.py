"""Which pools a replica looks at first, so that replicas which schedule at once seldom take from the same pool.

The pools are dealt out among the replicas that schedule: every pool is one replica's own, and shares differ by one at
most. Every replica works out the same deal from the same names, and a replica that comes or goes moves few pools but
its own. Behind its own a replica looks at those for which it comes second by weight, then third, and so on, so that
replicas whose own pools are full do not meet in one place either.

The weights are those of rendezvous hashing; the deal goes through all pairs of a pool and a replica, heaviest first,
and gives the pool to the replica unless the one is dealt or the other's share is full.

Nothing but speed depends on it: replicas that know different members, or have this switched off, collide more often
and are just as right.

Rejected: each replica's own order of all pools, by its own weights, of which the first 1/N is its share. Such shares
overlap: of 200 pools and 32 replicas, six pools in ten of a share are in somebody else's too.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.ids import PoolName, ReplicaId

DEALS_REMEMBERED: Final = 64
"""Deals are worked out anew when a pool or a replica comes or goes; one process may hold several replicas."""


@dataclass(frozen=True, slots=True)
class Preference:
    """One replica's order of pools.

    Attributes:
        places: of every pool in the order in which the replica looks at them.
        own: the pools that were dealt to it.
    """

    places: Mapping[PoolName, int]
    own: frozenset[PoolName]


@lru_cache(maxsize=DEALS_REMEMBERED)
def preference(replica: ReplicaId, schedulers: frozenset[ReplicaId], pools: tuple[PoolName, ...]) -> Preference:
    """The order in which a replica looks at pools.

    Args:
        schedulers: the replicas that schedule; the one that asks counts as one of them in any case.
        pools: every pool there is, in any order, also those that cannot be used now.
    """
    members = tuple(sorted(schedulers | {replica}))
    names = tuple(sorted(pools))
    weights = _weights(members, names)
    me = members.index(replica)
    dealt = _deal(weights) == me
    rank = (weights > weights[me]).sum(axis=0)
    order = np.lexsort((-weights[me].astype(np.float64), rank, ~dealt)).tolist()
    own = frozenset(names[at] for at in np.flatnonzero(dealt).tolist())
    return Preference({names[at]: place for place, at in enumerate(order)}, own)


def _weights(members: Iterable[ReplicaId], pools: Iterable[PoolName]) -> NDArray[np.uint64]:
    """Of every replica (rows) for every pool."""
    rows = [[_weight(member, pool) for pool in pools] for member in members]
    return np.array(rows, np.uint64)


def _weight(replica: ReplicaId, pool: PoolName) -> int:
    return int.from_bytes(hashlib.blake2b(f"{replica}\0{pool}".encode(), digest_size=8).digest(), "big")


def _deal(weights: NDArray[np.uint64]) -> NDArray[np.int64]:
    """To which replica each pool goes."""
    members, pools = weights.shape
    room = [pools // members + (member < pools % members) for member in range(members)]
    dealt = np.full(pools, -1, np.int64)
    left = pools
    for pair in np.argsort(weights, axis=None, kind="stable")[::-1].tolist():
        member, pool = divmod(pair, pools)
        if left and room[member] and dealt[pool] < 0:
            dealt[pool] = member
            room[member] -= 1
            left -= 1
    return dealt
