"""One run of a command: its settings, its paper, its connection.

A command builds a `Session` from its options, hands `ask` a coroutine that talks to the SDK, and says the answer with
`say`. Text goes to stdout only here, so that JSON stays JSON: notes and progress are stderr's.
"""

import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hanse.cli.paper import Paper, paper_of
from hanse.cli.settings import Output, Settings, settings_of

if TYPE_CHECKING:
    from hanse.client import AsyncClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What a command needs while it runs."""

    settings: Settings
    paper: Paper
    notes_paper: Paper

    @property
    def machine(self) -> bool:
        """A program reads the output."""
        return self.settings.output is not Output.TABLE

    def ask(self, work: "Callable[[AsyncClient], Awaitable[T]]") -> T:
        """Run a coroutine with a connection, and close it after."""
        import asyncio

        return asyncio.run(_connected(self.settings, work))

    def say(self, value: object, drawn: Callable[[Paper], str]) -> None:
        """The answer, in the form that is wanted.

        Args:
            value: of JSON and YAML.
            drawn: the text for people; called only if it is wanted.
        """
        if self.machine:
            put(formed(value, self.settings.output, self.paper))
        else:
            put(self.paper.write(drawn(self.paper)))

    def say_next(self, value: object, drawn: Callable[[Paper], str]) -> None:
        """One of many answers: a line of JSON, a document of YAML, or text, each seen at once."""
        match self.settings.output:
            case Output.TABLE:
                put(self.paper.write(drawn(self.paper)))
            case Output.JSON:
                put(json.dumps(value, ensure_ascii=not self.paper.unicode) + "\n")
            case Output.YAML:
                put("---\n" + formed(value, Output.YAML, self.paper))

    def note(self, text: str) -> None:
        """A line beside the answer, for people; a program is told nothing that it did not ask for."""
        if not self.machine:
            tell(text, self.notes_paper)


class ReaderGone(Exception):
    """Whoever read stdout has gone, as `head` does; nothing is wrong, and there is nobody left to tell."""


def session_of(server: str | None, output: Output | None) -> Session:
    """The session of a command with these options.

    Raises:
        Failure: the configuration file cannot be used.
    """
    return Session(settings_of(server or "", output, os.environ), *papers())


def papers() -> tuple[Paper, Paper]:
    """Those of stdout and stderr."""
    columns = shutil.get_terminal_size().columns
    return paper_of(sys.stdout, os.environ, columns=columns), paper_of(sys.stderr, os.environ, columns=columns)


def connected(settings: Settings, **terms: Any) -> "AsyncClient":
    """A client by the settings; the environment, where it says something, goes before the file.

    Args:
        terms: of AsyncClient.
    """
    from hanse.client import AsyncClient

    file = settings.environment()
    if "HANSE_TOKEN" in os.environ:
        file.pop("HANSE_TOKEN_FILE", None)
    return AsyncClient(settings.server or None, environment={**file, **os.environ}, **terms)


async def _connected(settings: Settings, work: "Callable[[AsyncClient], Awaitable[T]]") -> T:
    async with connected(settings) as client:
        return await work(client)


def formed(value: object, output: Output, paper: Paper) -> str:
    """A value as JSON or YAML, whole; escapes stand for what the stream's encoding does not know."""
    if output is Output.YAML:
        from hanse.cli.yaml_form import to_yaml

        return to_yaml(value, ascii_only=not paper.unicode)
    return json.dumps(value, ensure_ascii=not paper.unicode, indent=2) + "\n"


def put(text: str) -> None:
    """To stdout, seen at once."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReaderGone from None


def tell(text: str, paper: Paper) -> None:
    """One line to stderr. If nobody listens there, nobody is told."""
    with suppress(BrokenPipeError):
        sys.stderr.write(paper.write(text) + "\n")
        sys.stderr.flush()
