"""Who may call: static bearer tokens from a file, one principal each, or certificates (see `hanse.kit.tls`).

A server that can be reached from elsewhere asks everybody who they are. Only digests of tokens are kept. Where
certificates are asked for, a user's certificate is enough for the API; one that names nobody needs a token beside it,
and one of an agent or a replica opens no method of the API.
"""

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hanse.apiserver.context import ANONYMOUS
from hanse.kit.tls import Identity, Kind
from hanse.model.errors import FailedPrecondition, InvalidArgument, PermissionDenied

TOKENS_MAX: Final = 10_000
TOKEN_CHARS_MIN: Final = 16
UNAUTHENTICATED: Final = "UNAUTHENTICATED"

_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server asks for.

    Attributes:
        principals: by the digest of their token.
        certificates: everybody shows one that the server's authority has signed.
    """

    principals: Mapping[bytes, str] = field(default_factory=dict)
    certificates: bool = False

    @property
    def open(self) -> bool:
        """The server trusts everybody who reaches it."""
        return not self.principals and not self.certificates

    def principal(self, authorization: str, shown: Identity | None = None) -> str:
        """Who calls, by the value of the `authorization` metadata and the certificate.

        Raises:
            PermissionDenied: reason UNAUTHENTICATED.
        """
        if self.open:
            return ANONYMOUS
        if shown is not None and shown.kind is not Kind.USER:
            raise PermissionDenied(
                f"the certificate is of {shown}, and opens no API; call with one of hanse://user/NAME",
                reason=UNAUTHENTICATED,
            )
        if shown is not None and not authorization:
            return shown.name
        if not self.principals:
            raise PermissionDenied(
                "the certificate names no user; call with one whose alternative names have hanse://user/NAME",
                reason=UNAUTHENTICATED,
            )
        if not authorization.lower().startswith(_SCHEME):
            raise PermissionDenied(
                "this server asks for a token: set HANSE_TOKEN, or send `authorization: Bearer TOKEN`",
                reason=UNAUTHENTICATED,
            )
        found = self.principals.get(_digest(authorization[len(_SCHEME) :].strip()))
        if found is None:
            raise PermissionDenied("this server does not know the token", reason=UNAUTHENTICATED)
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def parse_tokens(text: str, *, path: str = "token file") -> Credentials:
    """Credentials of lines `PRINCIPAL TOKEN`; empty lines and lines that begin with # are left out.

    Raises:
        InvalidArgument: reason TOKENS_INVALID, with the line. Tokens are never shown.
    """
    principals: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        what = ""
        if len(words) != 2:
            what = "a line has a principal and a token, nothing else"
        elif not _PRINCIPAL.fullmatch(words[0]) or words[0] == ANONYMOUS:
            what = "the principal must be letters, digits and . _ @ -"
        elif len(words[1]) < TOKEN_CHARS_MIN:
            what = f"the token must have at least {TOKEN_CHARS_MIN} characters"
        elif _digest(words[1]) in principals:
            what = "the token stands for another principal already"
        elif len(principals) == TOKENS_MAX:
            what = f"at most {TOKENS_MAX} tokens are taken"
        if what:
            raise InvalidArgument(what, reason="TOKENS_INVALID", path=path, line=number)
        principals[_digest(words[1])] = words[0]
    if not principals:
        raise InvalidArgument("it holds no token; write lines `PRINCIPAL TOKEN`", reason="TOKENS_INVALID", path=path)
    return Credentials(principals)


def read_tokens(file: Path) -> Credentials:
    """Credentials of a file. Raises InvalidArgument: reason TOKENS_INVALID."""
    try:
        return parse_tokens(file.read_text(encoding="utf-8"), path=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot be read: {error}", reason="TOKENS_INVALID", path=str(file)) from None


def check_listen(listen: str, credentials: Credentials) -> None:
    """Whether a server may listen there.

    Raises:
        FailedPrecondition: reason CREDENTIALS_MISSING; reachable from elsewhere, and trusting everybody.
        InvalidArgument: reason LISTEN_INVALID.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgument(
            f"{listen!r} is not an address to listen on; write HOST:PORT, as in 127.0.0.1:7311",
            reason="LISTEN_INVALID",
            path="listen",
        )
    if credentials.open and not is_loopback(host):
        raise FailedPrecondition(
            f"refusing to listen on {listen}, which others can reach, without credentials; "
            "configure a token file or an authority for certificates, or listen on 127.0.0.1",
            reason="CREDENTIALS_MISSING",
            path="listen",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host. A name is asked of nobody: only `localhost` is believed."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
