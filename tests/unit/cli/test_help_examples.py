"""Every example in the help of a command is one that the command understands."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from hanse.cli.app import command

ONE_COMMAND = re.compile(r"[^|&;>'\"]*(?:'[^']*'[^|&;>'\"]*|\"[^\"]*\"[^|&;>'\"]*)*")


def parsers(path: str, parser: Any) -> Iterator[tuple[str, Any]]:  # Any: the parser's classes have no public names
    """The command and all below it, by what is typed."""
    yield path, parser
    for name, below in getattr(parser, "commands", {}).items():
        yield from parsers(f"{path} {name}", below)


def examples() -> list[str]:
    """What the helps show, without what other programs do before and after."""
    lines = [
        line.strip()
        for _, parser in parsers("hanse", command())
        for line in (parser.help or "").partition("\b\n")[2].partition("\n\n")[0].splitlines()
    ]
    parts = [part.strip() for line in lines for part in ONE_COMMAND.findall(line)]
    return list(dict.fromkeys(part for part in parts if part.startswith("hanse ")))


@pytest.mark.parametrize("example", examples())
def test_an_example_is_understood(example: str) -> None:
    _, *words = shlex.split(example)
    parser: Any = command()
    while words and words[0] in getattr(parser, "commands", {}):
        parser = parser.commands[words.pop(0)]
    parser.make_context("hanse", words)  # raises what a user would be told


def test_every_command_has_an_example_here() -> None:
    shown = {example.split()[1] for example in examples()}
    assert set(command().commands) <= shown
    assert len(examples()) > len(shown)


def test_an_example_that_is_wrong_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        command().commands["jobs"].make_context("hanse", ["--nosuch"])
