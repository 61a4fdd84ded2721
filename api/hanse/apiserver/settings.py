"""What an operator may set about the API server, with defaults that suit a federation of some hundred pools."""

from dataclasses import dataclass
from typing import Final

from hanse.model.job import SPEC_BYTES_MAX

DEFAULT_LISTEN: Final = "127.0.0.1:7311"


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits of one API server.

    Attributes:
        spec_bytes_max: size of a stored, compressed spec, the original manifest included.
        queue_pending_max: jobs that may wait in one queue; 0 for no limit. Counted now and then, so that it may be
            passed by what the other replicas accept meanwhile.
        calls_max: unary calls in progress; beyond it RESOURCE_EXHAUSTED.
        streams_max: watches and other streams that are open; beyond it RESOURCE_EXHAUSTED.
        call_deadline_s: a unary call ends after this time whatever its caller says.
        watch_write_deadline_s: a watcher that takes no answer for so long is cut off.
    """

    spec_bytes_max: int = SPEC_BYTES_MAX
    queue_pending_max: int = 1_000_000
    calls_max: int = 512
    streams_max: int = 1_024
    call_deadline_s: float = 30.0
    watch_write_deadline_s: float = 30.0
