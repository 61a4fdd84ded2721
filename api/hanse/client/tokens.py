"""The token that a client shows: given, or in a file that is read again when it changes, as short-lived ones do.

It is never sent in clear to another machine: whoever reads it on the way could be its owner from then on.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hanse.kit.addresses import is_loopback
from hanse.kit.tls import TlsFiles
from hanse.model.errors import InvalidArgument

TOKEN_VARIABLE: Final = "HANSE_TOKEN"
FILE_VARIABLE: Final = "HANSE_TOKEN_FILE"
TOKEN_BYTES_MAX: Final = 16_384


def token_source(given: str | None, file: Path | None, environment: Mapping[str, str]) -> Callable[[], str]:
    """Tells the token, "" for none: the given one, that of the given file, HANSE_TOKEN, that of HANSE_TOKEN_FILE."""
    text = environment.get(TOKEN_VARIABLE, "") if given is None and file is None else given or ""
    named = environment.get(FILE_VARIABLE, "")
    path = file if file is not None else Path(named).expanduser() if named and given is None and not text else None
    if path is not None and not text:
        return _File(path)
    token = _checked(text, TOKEN_VARIABLE) if text else ""
    return lambda: token


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0, 0)
        self._token = ""

    def __call__(self) -> str:
        """The token as it is now. Raises InvalidArgument: reason TOKEN_INVALID; what is in the file is not shown."""
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                with self._path.open("rb") as opened:
                    text = opened.read(TOKEN_BYTES_MAX + 1).decode(errors="replace")
                self._token, self._seen = _checked(text.strip(), str(self._path)), seen
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise InvalidArgument(what, reason="TOKEN_INVALID", path=str(self._path)) from None
        return self._token


def _checked(text: str, path: str) -> str:
    if not text.isascii() or len(text.split()) != 1 or len(text) > TOKEN_BYTES_MAX or not text.isprintable():
        raise InvalidArgument(
            "it must be one token of plain ASCII and nothing else", reason="TOKEN_INVALID", path=path
        )
    return text


def check_secret(server: str, token: str, tls: TlsFiles | None) -> None:
    """Whether a token may be sent there. Raises InvalidArgument: reason TOKEN_IN_CLEAR."""
    host = server.rpartition(":")[0]
    if token and tls is None and not is_loopback(host):
        raise InvalidArgument(
            f"the token would travel readable to {server}, and is not sent: set HANSE_CA_FILE to the authority of its"
            " certificate, or HANSE_TLS=1 if this machine trusts it",
            reason="TOKEN_IN_CLEAR",
            path="server",
        )
