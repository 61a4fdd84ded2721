"""Many state records at once, as columns: what `lifecycle.decode_state` says of each, without an object for any.

A million records are read when a replica starts, and most are only counted or kept waiting. A record that is not told
to be plain here is one for `decode_state`: it is of another version, damaged, or of a job that somebody must look at.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.job import POOLS_PER_JOB_MAX
from hanse.model.lifecycle import STATE_BYTES, TERMINAL, State
from hanse.model.reasons import Reason

STATE_RECORD: Final = np.dtype(
    [
        ("version", "u1"),
        ("state", "u1"),
        ("target", "u1"),
        ("flags", "u1"),
        ("reason", "<u2"),
        ("failures", "<u2"),
        ("max_retries", "<u2"),
        ("changed_rest_ms", "<u2"),
        ("attempt", "<u4"),
        ("priority", "<i4"),
        ("changed_s", "<u4"),
        ("submit_ms", "<u8"),
        ("class_hash", "<u8"),
        ("write_id", "<u8"),
        ("slots", "<u2", (POOLS_PER_JOB_MAX,)),
    ]
)
"""The layout that `lifecycle.encode_state` writes."""

_VERSION: Final = 1
_HELD: Final = 2
_POOL_NONE: Final = 0xFFFF
_STATES: Final = np.array(sorted(State), np.uint8)
_REASONS: Final = np.array(sorted(Reason), np.uint16)
_TERMINAL: Final = np.array(sorted(TERMINAL), np.uint8)
_NOTHING: Final = bytes(STATE_BYTES)

Records = NDArray[np.void]
Mask = NDArray[np.bool_]


def records(values: Sequence[bytes]) -> Records:
    """The records as one array; one of a wrong size becomes one of no version."""
    whole = b"".join(values)
    if len(whole) != STATE_BYTES * len(values) or any(len(value) != STATE_BYTES for value in values):
        whole = b"".join(value if len(value) == STATE_BYTES else _NOTHING for value in values)
    return np.frombuffer(whole, STATE_RECORD)


def readable(found: Records) -> Mask:
    """Those that `decode_state` takes."""
    states = np.isin(found["state"], _STATES) & np.isin(found["target"], _STATES)
    known: Mask = (found["version"] == _VERSION) & states & np.isin(found["reason"], _REASONS)
    return known


def held(found: Records) -> Mask:
    """Of readable ones, those of jobs on hold."""
    mask: Mask = (found["flags"] & _HELD) != 0
    return mask


def in_state(found: Records, state: State) -> Mask:
    """Of readable ones, those in this state."""
    mask: Mask = found["state"] == int(state)
    return mask


def ended(found: Records) -> Mask:
    """Of readable ones, those of jobs that have ended."""
    return np.isin(found["state"], _TERMINAL)


def is_split(found: Records) -> Mask:
    """Of readable ones, those of jobs that have or had places in more than one pool."""
    mask: Mask = found["slots"][:, 1] != _POOL_NONE
    return mask
