"""Limits of the public API that both of its ends know: what a server refuses, a client need not send."""

from typing import Final

JOBS_PER_BATCH_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Any message: a page of jobs with their specs is the largest."""

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1_000
POOLS_PAGE_SIZE_MAX: Final = 1_000
WATCHED_JOBS_MAX: Final = 1_000
OBJECTS_PER_APPLY_MAX: Final = 1_000
TAIL_LINES_DEFAULT: Final = 100
TAIL_LINES_MAX: Final = 10_000
TAIL_EVENTS_DEFAULT: Final = 100
TAIL_EVENTS_MAX: Final = 1_000
REQUEST_ID_CHARS_MAX: Final = 128
