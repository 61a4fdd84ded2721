"""Checks that no seed can miss, because another one stands behind them; each with what that is."""

from typing import Final

REDUNDANT: Final[dict[str, str]] = {}
"""Why it does no harm to take a check out, by a part of what `removal` says of it."""


def reason_of(told: str) -> str:
    """Why this check may be missing; "" if it may not."""
    return next((why for part, why in REDUNDANT.items() if part in told), "")
