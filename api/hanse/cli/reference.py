"""The reference page of the command, made from the command itself.

To write it anew: `python -m hanse.cli.reference > docs/reference/cli.md`. A test compares the page with what this
prints, so that it is never out of date.
"""

import inspect
import sys
from collections.abc import Iterator
from typing import Any, Final

from hanse.cli import settings, state
from hanse.cli.app import GROUPS, command

HEAD: Final = """# The `hanse` command

Made by `python -m hanse.cli.reference` from the command itself; `hanse COMMAND --help` says the same.

A job is named by its id, by a beginning of its name that leads to one job, or by `last`: the job that was submitted
last from here, else the server's newest. Where a beginning fits several jobs, a name that is written out wins, then
the only one that has not ended.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | understood, and it failed: refused, a file is wrong, the job ended badly, time ran out |
| 2 | not understood: an unknown option, a missing argument, an address that is none |
| 3 | no Hanse server answers |

With `-o json` or `-o yaml`, a failure is an object on stdout: `{"error": {"reason", "path", "line", "message"}}`.
Everything that is not the answer (notes, progress, errors as text) goes to stderr.
"""


def page() -> str:
    """The whole page."""
    sections = [HEAD, *_settings()]
    for title, names in GROUPS.items():
        sections.append(f"## {title}\n")
        for name in names:
            sections += _command(f"hanse {name}", command().commands[name])
    return "\n".join(sections)


def _settings() -> Iterator[str]:
    yield "## Settings\n"
    yield _text(settings.__doc__ or "") + "\n"
    yield _text(state.__doc__ or "") + "\n"


def _text(doc: str) -> str:
    """A docstring as Markdown: its indented lines are code already."""
    return inspect.cleandoc(doc)


def _command(path: str, parser: Any) -> Iterator[str]:  # Any: the parser's classes have no public names
    help_text, _, example = (parser.help or "").partition("\b\n")
    yield f"### `{path}`\n\n{' '.join(help_text.split())}\n"
    code, _, after = example.partition("\n\n")
    yield f"```\n{inspect.cleandoc(code)}\n```\n"
    if after.strip():
        yield f"{' '.join(after.split())}\n"
    rows = [row for parameter in parser.params for row in _parameter(parameter)]
    if rows:
        yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"
    for name, sub in getattr(parser, "commands", {}).items():
        yield from _command(f"{path} {name}", sub)


def _parameter(parameter: Any) -> Iterator[str]:
    metavar = (parameter.metavar or "").replace("|", "\\|")
    name = ", ".join(parameter.opts) if parameter.param_type_name == "option" else ""
    shown = f"{name} {metavar}".strip()
    told = (parameter.help or "").replace("|", "\\|")
    yield f"| `{shown}` | {told} |"


if __name__ == "__main__":
    sys.stdout.write(page())
