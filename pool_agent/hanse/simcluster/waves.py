"""When the pods of a gang come up: a function of the cluster's seed, the gang and the pod, so that a run repeats.

Pods start in at most START_WAVES waves. Real starts scatter continuously, but what an agent must bear is that some
pods run while others do not; four moments show that as well as four thousand, at a thousandth of the events.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hanse.simcluster.inputs import GangId

START_WAVES: Final = 4
TIMINGS_KEPT_MAX: Final = 64
_SPREAD: Final = 2_654_435_761  # Knuth's multiplicative hash: neighbours fall into different waves
_WORD: Final = 0xFFFF_FFFF
_TOP_BITS: Final = 30  # of 32: leaves START_WAVES values


def gang_hash(seed: int, gang: GangId) -> int:
    """32 bits that differ from gang to gang and are the same in every process."""
    return crc32(f"{seed}/{gang.job}/{gang.attempt}/{gang.part}".encode())


def waves(seed: int, gang: GangId, first: int, end: int) -> NDArray[np.int64]:
    """In which wave each of the pods numbered `first` to `end` - 1 comes up."""
    numbers = np.arange(first, end, dtype=np.int64)
    return ((numbers * _SPREAD + gang_hash(seed, gang)) & _WORD) >> _TOP_BITS


@lru_cache(TIMINGS_KEPT_MAX)
def wave_offsets(jitter_ms: int, tick_ms: int) -> NDArray[np.int64]:
    """How much later than the first each wave comes up, in ms; multiples of the tick. Read-only."""
    shares = [round_up(wave * jitter_ms // (START_WAVES - 1), tick_ms) for wave in range(START_WAVES)]
    offsets = np.array(shares, dtype=np.int64)
    offsets.flags.writeable = False
    return offsets


def round_up(at_ms: int, tick_ms: int) -> int:
    """The first multiple of the tick at or after a time."""
    return -(-at_ms // tick_ms) * tick_ms
