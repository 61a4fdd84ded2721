"""Which version of the product this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    """Version of the installed distribution."""
    try:
        return version("hanse")
    except PackageNotFoundError:
        return "unknown"
