"""The entry point: runs the app, and turns whatever goes wrong into one line and an exit code (see `failures`)."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import typer

from hanse.cli.failures import (
    DEBUG_VARIABLE,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    Failure,
    WrongUse,
    error_object,
    exit_code,
    lines_of,
    usage_object,
)
from hanse.cli.session import ReaderGone, formed, papers, put, tell
from hanse.cli.settings import Output, settings_of
from hanse.model.errors import HanseError

PROGRAM: Final = "hanse"
_FORM_OPTIONS: Final = ("-o", "--output")

# Typer carries a Click of its own since 0.26 and used the package before; only this class of it is public.
_Misused: Final[type[Exception]] = typer.BadParameter.__mro__[1]


def main() -> None:
    """Run the command with the process's arguments, and end the process."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what gRPC says of failures on stderr is said again, in words
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code. Raises only what is a bug, and only with HANSE_DEBUG set."""
    try:
        return _run(arguments)
    except ReaderGone:
        return EXIT_DONE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Failure as failure:
        return _told(arguments, failure)
    except HanseError as error:
        return _told(arguments, Failure(error))
    except WrongUse as error:
        return _misused(arguments, str(error))
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        what = f"this is a bug of hanse ({type(error).__name__}: {error}); {DEBUG_VARIABLE}=1 shows where it is"
        return _told(arguments, Failure(HanseError(what)))


def _run(arguments: Sequence[str]) -> int:
    from hanse.cli.app import command

    try:
        code = command().main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except _Misused as error:
        raise WrongUse(_misuse(error)) from None
    return code if isinstance(code, int) else EXIT_DONE


def _misuse(error: Any) -> str:  # Any: what the parser raises has no public name
    context = error.ctx
    path = context.command_path if context is not None else PROGRAM
    return f"{path}: {_sentence(error.format_message())}; `{path} --help` shows how"


def _sentence(message: str) -> str:
    """A message of the parser as we write them: one line, without a full stop."""
    text = " ".join(message.split()).removesuffix(".")
    return text[:1].lower() + text[1:]


def _told(arguments: Sequence[str], failure: Failure) -> int:
    first = failure.errors[0]
    _tell(arguments, lines_of(failure.errors, file=failure.file), error_object(first))
    return exit_code(first)


def _misused(arguments: Sequence[str], message: str) -> int:
    _tell(arguments, [message], usage_object(message))
    return EXIT_USAGE


def _tell(arguments: Sequence[str], lines: Sequence[str], value: object) -> None:
    """What went wrong: as lines on stderr, or as a value on stdout."""
    output = _wanted(arguments)
    paper, notes_paper = papers()
    if output is Output.TABLE:
        for line in lines:
            tell(line, notes_paper)
    else:
        with suppress(ReaderGone):
            put(formed(value, output, paper))


def _wanted(arguments: Sequence[str]) -> Output:
    """The form of output that was asked for, whether the arguments could be parsed or not."""
    words = list(arguments)
    words = words[: words.index("--")] if "--" in words else words
    for index, word in enumerate(words):
        for option in _FORM_OPTIONS:
            following = words[index + 1] if index + 1 < len(words) else ""
            value = following if word == option else word.removeprefix(option).removeprefix("=")
            if word.startswith(option) and value in tuple(Output):
                return Output(value)
    try:
        return settings_of("", None, os.environ).output
    except Failure:
        return Output.TABLE
