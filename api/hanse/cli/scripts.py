"""The parser's own completion: the script that a shell reads, and the answers to what that script asks.

Typer prepares for completion only where it also adds two options of its own to every help; this is the rest of it.
"""

from typing import Final

import typer.completion as parser

COMPLETE_VARIABLE: Final = "_HANSE_COMPLETE"


def completion_script(shell: str) -> str:
    """What `bash`, `zsh` or `fish` has to read."""
    script = parser.get_completion_script(  # type: ignore[attr-defined]
        prog_name="hanse", complete_var=COMPLETE_VARIABLE, shell=shell
    )
    return f"{script}\n"


def prepare_completion() -> None:
    """Make the parser answer a shell that asks."""
    parser.completion_init()  # type: ignore[attr-defined]
