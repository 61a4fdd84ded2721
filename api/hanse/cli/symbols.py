"""Signs that linters take for typing errors when they stand in a text, by name."""

from typing import Final

DASH: Final = "\N{EN DASH}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
