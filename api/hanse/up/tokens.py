"""Tokens that a process shows: one in a file, so that it is in no command line and no environment."""

from pathlib import Path
from typing import Final

from hanse.model.errors import InvalidArgument

TOKEN_BYTES_MAX: Final = 4_096


def read_token(file: Path | None) -> str:
    """The token in a file, "" without one.

    Raises:
        InvalidArgument: reason TOKENS_INVALID; what is in the file is not shown.
    """
    if file is None:
        return ""
    try:
        with file.open("rb") as opened:
            text = opened.read(TOKEN_BYTES_MAX).decode("ascii").strip()
    except OSError as error:
        raise InvalidArgument(f"cannot be read: {error.strerror}", reason="TOKENS_INVALID", path=str(file)) from None
    except UnicodeDecodeError:
        raise InvalidArgument("a token is plain ASCII", reason="TOKENS_INVALID", path=str(file)) from None
    if len(text.split()) != 1:
        raise InvalidArgument("it must hold one token and nothing else", reason="TOKENS_INVALID", path=str(file))
    return text
