"""The demo's manifest is installed with the command, and is the one that the docs show."""

from importlib import resources

from tests.arch.tree import ROOT


def test_the_installed_example_is_the_documented_one() -> None:
    installed = resources.files("hanse.cli").joinpath("data/llama3-70b.yaml").read_bytes()
    assert installed == (ROOT / "docs/examples/llama3-70b.yaml").read_bytes()
