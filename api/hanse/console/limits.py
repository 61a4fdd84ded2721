"""What the console gives, takes and waits for at most."""

from typing import Final

CONNECTIONS_MAX: Final = 512
STREAMS_MAX: Final = 256
STREAMS_PER_CALLER_MAX: Final = 32
CALLS_MAX: Final = 64

HEAD_BYTES_MAX: Final = 16_384
HEAD_DEADLINE_S: Final = 10.0
"""From the first byte of a request, or the begin of a connection, until the head of the request is there."""

BODY_BYTES_MAX: Final = 16_384
BODY_DEADLINE_S: Final = 5.0
KEEP_ALIVE_S: Final = 30
WRITE_DEADLINE_S: Final = 20.0
"""Who takes nothing of an answer for so long is hung up on; a stream can be resumed."""

CALL_DEADLINE_S: Final = 15.0
STOP_GRACE_S: Final = 1
STREAM_LIFE_S: Final = 1_800.0
"""After so long a stream ends, and its reader comes again and shows who it is."""

RIGHTS_LOOK_S: Final = 5.0
"""So often is looked whether who reads a stream still may."""

FRAME_INTERVAL_S: Final = 0.5
HEARTBEAT_S: Final = 10.0
STATUS_INTERVAL_S: Final = 2.0
HUBS_MAX: Final = 64
POOL_REST_S: Final = 0.0006
"""Twenty times what it costs to look whether a pool has changed. After a look at all of them nobody looks for so
long, so that following a fleet of any size takes a twentieth of the event loop at most."""

RETRY_S: Final = 1.0
LINGER_S: Final = 20.0
"""How long what a caller follows is kept up to date after the last of their streams has ended."""

ROWS_PER_FRAME_MAX: Final = 250
EVENTS_PER_FRAME_MAX: Final = 100
EVENTS_KEPT_MAX: Final = 500
REMOVED_KEPT_MAX: Final = 1_000
DEGRADED_MAX: Final = 50
ROOTS_MAX: Final = 100

JOBS_PAGE_MAX: Final = 200
WAITING_SHOWN_MAX: Final = 200
FOUND_MAX: Final = 12
SHAPES_PER_CALL_MAX: Final = 48
CELLS_PER_POOL_MAX: Final = 2_048
RACKS_MAX: Final = 4_096
RANKS_SHOWN_MAX: Final = 512
POOLS_EXPLAINED_MAX: Final = 100
LOG_TAIL_DEFAULT: Final = 200
CENSUS_REST: Final = 20.0
"""Counting the jobs of all queues may take one part in so many of the time."""

CENSUS_AGE_MIN_S: Final = 2.0
