"""`hanse completion`: what a shell needs to complete commands, options, and the names of jobs, pools and queues."""

from enum import StrEnum
from typing import Annotated

import typer

from hanse.cli.session import put


class Shell(StrEnum):
    """Shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print the completion script of a shell.

    \b
    source <(hanse completion bash)
    hanse completion fish > ~/.config/fish/completions/hanse.fish
    """
    from hanse.cli.scripts import completion_script

    put(completion_script(shell.value))
