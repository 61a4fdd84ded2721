"""`--rewrite` writes golden output anew."""

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden output of stories anew")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden output is to be written anew; the option is unknown where this folder is not named."""
    return bool(request.config.getoption("--rewrite", False) or os.environ.get("REWRITE_GOLDEN"))
