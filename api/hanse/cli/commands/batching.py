"""`hanse sbatch`: a Slurm batch script, with the options that sbatch takes."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.submitting import Order, send
from hanse.cli.failures import Failure, WrongUse
from hanse.cli.reading import STDIN, read_file, shown_name
from hanse.cli.session import session_of
from hanse.model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.manifests import Converted
    from hanse.manifests.sbatch.script import Option

USAGE: Final = "hanse sbatch [OPTION…] SCRIPT [ARG…]"
_WRAPPED: Final = "#!/bin/sh\n"


@dataclass(frozen=True, slots=True)
class _Call:
    """The words of the command line, sorted."""

    server: str | None
    options: "tuple[Option, ...]"
    script: str
    words: tuple[str, ...]


def sbatch(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTION…] SCRIPT [ARG…]", help="As sbatch takes them.")
    ] = None,
) -> None:
    """Submit a Slurm batch script; each of its nodes is a pod that runs the script.

    Options are those of sbatch and count over the script's #SBATCH lines; what has no meaning here is named, or
    refused. Beyond them: --image, --queue, --block-level, --switch-level, --upper-level, --gpu-resource, which a
    script may say in #HANSE lines, and --server. `hanse convert SCRIPT` shows what a script asks for.

    \b
    hanse sbatch train.sh
    hanse sbatch --image registry.example/train:3 -N 16 --gpus-per-node=8 train.sh --lr 3e-4
    hanse sbatch -N 2 --wrap 'srun nvidia-smi'
    """
    call = _call(list(words or []))
    converted, name = _converted(call)
    session = session_of(call.server, None)
    order = Order(converted, name, queue="", priority="", request_id="")
    raise typer.Exit(session.ask(lambda client: send(client, session, order)))


def _call(words: list[str]) -> _Call:
    from hanse.manifests.sbatch.script import take_option

    server: str | None = None
    options: list[Option] = []
    while words and words[0].startswith("-") and words[0] != "-":
        if words[0] == "--":
            words.pop(0)
            break
        if words[0].split("=")[0] == "--server":
            server = _server(words)
            continue
        try:
            options.append(take_option(words))
        except InvalidArgument as error:
            raise WrongUse(f"hanse sbatch: {error.message}") from None
    wrapped = any(option.kind.name == "wrap" for option in options)
    if wrapped and words:
        raise WrongUse(f"hanse sbatch: --wrap is the script; {shlex.quote(words[0])} is one too many")
    if not wrapped and not words:
        raise WrongUse(f"hanse sbatch: name a script; usage: {USAGE}")
    return _Call(server, tuple(options), words[0] if words else "", tuple(words[1:]))


def _server(words: list[str]) -> str:
    _, equals, value = words.pop(0).partition("=")
    if equals:
        return value
    if not words:
        raise WrongUse("hanse sbatch: --server needs HOST:PORT")
    return words.pop(0)


def _converted(call: _Call) -> "tuple[Converted, str]":
    """The jobs of the call, and what errors call the script.

    Raises:
        Failure: the script cannot be read or asks for what cannot be.
    """
    wrapped = next((option.value for option in call.options if option.kind.name == "wrap"), "")
    text = read_file(call.script) if call.script else (_WRAPPED + wrapped + "\n").encode()
    name = shown_name(call.script)
    try:
        found = read_script(text, call.script or "wrap", given=call.options, words=call.words)
    except InvalidArgument as error:
        raise Failure(error, file=name if error.line else "") from None
    return found, name


def read_script(
    text: bytes, file: str, *, given: "Sequence[Option]" = (), words: "Sequence[str]" = ()
) -> "Converted":
    """The jobs of a batch script; its file names them if no option does.

    Raises:
        InvalidArgument: with the option as path, and the line.
    """
    from hanse.manifests import convert
    from hanse.manifests.sbatch import convert_script

    return convert_script(text, convert, given=given, words=words, filename="" if file == STDIN else file)
