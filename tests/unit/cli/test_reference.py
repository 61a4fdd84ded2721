"""The reference page is what the command says."""

from hanse.cli.app import GROUPS, app, command
from hanse.cli.reference import page
from tests.arch.tree import ROOT


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m hanse.cli.reference > docs/reference/cli.md"


def test_every_command_is_in_a_group() -> None:
    known = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}
    assert {name for names in GROUPS.values() for name in names} == known


def test_every_command_has_help_with_an_example() -> None:
    for name, parser in command().commands.items():
        assert f"hanse {name}" in (parser.help or "").partition("\b")[2], name


def test_every_option_and_argument_is_described() -> None:
    for name, parser in command().commands.items():
        for parameter in parser.params:
            assert getattr(parameter, "help", ""), f"{name} {parameter.name}"
