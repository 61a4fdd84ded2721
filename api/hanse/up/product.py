"""Which version of the product runs here."""

from importlib.metadata import PackageNotFoundError, version


def product_version() -> str:
    """The version of the installed distribution."""
    try:
        return version("hanse")
    except PackageNotFoundError:
        return "unknown"
