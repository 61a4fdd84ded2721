"""Limits of a shape, in one place because agent, scheduler and tests rely on the same numbers."""

from typing import Final

SUMMARY_BYTES_MAX: Final = 8_192  # of an encoded shape, whatever the size of the pool
LEVELS_MAX: Final = 12  # levels of one group, without the host
LEVELS_BYTES_MAX: Final = 2_048  # of all keys and aliases of one pool
GROUPS_MAX: Final = 8  # node groups with level lists of their own in one pool
CLASSES_MAX: Final = 48  # host classes that a shape tells apart
GPUS_PER_HOST_MAX: Final = 256
HOSTS_MAX: Final = 1_000_000  # hosts of one pool
TEXT_BYTES_MAX: Final = 512  # any single name inside a shape
AMOUNT_MAX: Final = 2**62

HOST_ALIAS: Final = "host"
HOST_KEY: Final = "kubernetes.io/hostname"
