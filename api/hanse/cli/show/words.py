"""Words for states and reasons, each with the tone that it is said in."""

from typing import TYPE_CHECKING, Final

from hanse.cli.paper import Tone
from hanse.model.lifecycle import LIVE, TERMINAL, State
from hanse.model.reasons import Reason

if TYPE_CHECKING:
    from hanse.api.v1.pool_pb2 import Pool

_TONES: Final = {
    State.PENDING: Tone.WAITING,
    State.STOPPING: Tone.WAITING,
    State.SUCCEEDED: Tone.DIM,
    State.FAILED: Tone.BAD,
    State.LOST: Tone.BAD,
    State.CANCELLED: Tone.DIM,
}
_HEALTH: Final = {1: "healthy", 2: "stale", 3: "detached", 4: "starting"}


def state_of(number: int) -> State:
    """The state of a message; UNSPECIFIED for one that this version does not know."""
    try:
        return State(number)
    except ValueError:
        return State.UNSPECIFIED


def ended(number: int) -> bool:
    """Whether a state is final."""
    return state_of(number) in TERMINAL


def state_word(number: int) -> str:
    """`RUNNING`; the number of a state that this version does not know."""
    state = state_of(number)
    return state.name if state is not State.UNSPECIFIED else str(number)


def state_tone(number: int) -> Tone:
    """The tone of a state."""
    state = state_of(number)
    return _TONES.get(state, Tone.GOOD if state in LIVE else Tone.PLAIN)


def reason_prose(code: str) -> str:
    """A reason code as a sentence; the code in small letters if it is not known here."""
    found = Reason.__members__.get(code)
    return reason_words(code) if found is None else found.prose


def reason_words(code: str) -> str:
    """`LEVEL_UNKNOWN` as `level unknown`."""
    return code.lower().replace("_", " ")


def pool_state(pool: "Pool") -> tuple[str, Tone]:
    """The one word that matters most about a pool."""
    health = _HEALTH.get(pool.health, "unknown")
    if pool.HasField("leave"):
        return ("left" if pool.leave.left_ms else "leaving"), Tone.WAITING
    if health in ("stale", "detached"):
        return health, Tone.BAD
    if pool.HasField("drain"):
        return ("draining" if pool.gangs else "drained"), Tone.WAITING
    if pool.cordoned:
        return "cordoned", Tone.WAITING
    return health, Tone.GOOD if health == "healthy" else Tone.WAITING
