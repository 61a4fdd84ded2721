"""Static bearer tokens from a file, one principal each, and where a server may listen.

A server that can be reached from elsewhere asks everybody who they are. Only digests of tokens are kept, and the file
may hold nothing else: `hanse token NAME` makes a token and the line for it. A token has so much entropy that a digest
without salt tells nobody anything; for the same reason it is looked up by its digest, in no time that would depend on
how much of it was guessed. Where certificates are asked for, a user's certificate is enough for the API; one that
names nobody needs a token beside it, and one of an agent or a replica opens no method of the API.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hanse.apiserver.context import ANONYMOUS
from hanse.kit.addresses import is_loopback
from hanse.model.errors import FailedPrecondition, InvalidArgument

TOKENS_MAX: Final = 10_000
TOKEN_CHARS_MIN: Final = 16
GROUPS_MAX: Final = 64
TOKENS_FILE_BYTES_MAX: Final = 4 << 20
HASHED: Final = "sha256:"
UNAUTHENTICATED: Final = "UNAUTHENTICATED"

_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a token stands for, and the groups that they are in."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server asks for.

    Attributes:
        principals: by the digest of their token.
        certificates: everybody shows one that the server's authority has signed.
    """

    principals: Mapping[bytes, Holder] = field(default_factory=dict)
    certificates: bool = False

    @property
    def open(self) -> bool:
        """The server trusts everybody who reaches it."""
        return not self.principals and not self.certificates

    def holder(self, token: str) -> Holder | None:
        """Whom a token stands for, None if nobody knows it."""
        return self.principals.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def parse_tokens(text: str, *, path: str = "token file") -> Credentials:
    """Credentials of lines `PRINCIPAL TOKEN [GROUP,…]`, where TOKEN may be `sha256:` and its digest in hex; empty
    lines and lines that begin with # are left out.

    Raises:
        InvalidArgument: reason TOKENS_INVALID, with the line. Tokens are never shown.
    """
    principals: dict[bytes, Holder] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        groups = tuple(words[2].split(",")) if len(words) == 3 else ()
        key = _key(words[1]) if len(words) > 1 else None
        what = ""
        if not 2 <= len(words) <= 3:
            what = "a line has a principal, a token and, with commas, groups; nothing else"
        elif not _PRINCIPAL.fullmatch(words[0]) or words[0] == ANONYMOUS:
            what = "the principal must be letters, digits and . _ @ -"
        elif not all(_PRINCIPAL.fullmatch(group) for group in groups) or len(groups) > GROUPS_MAX:
            what = f"groups are at most {GROUPS_MAX} names of letters, digits and . _ @ -, with commas in between"
        elif key is None and words[1].startswith(HASHED):
            what = f"a digest is {HASHED} and 64 hexadecimal digits; `hanse token` writes one"
        elif key is None:
            what = f"the token must have at least {TOKEN_CHARS_MIN} characters"
        elif key in principals:
            what = "the token stands for another principal already"
        elif len(principals) == TOKENS_MAX:
            what = f"at most {TOKENS_MAX} tokens are taken"
        if what or key is None:
            raise InvalidArgument(what, reason="TOKENS_INVALID", path=path, line=number)
        principals[key] = Holder(words[0], groups)
    if not principals:
        raise InvalidArgument("it holds no token; write lines `PRINCIPAL TOKEN`", reason="TOKENS_INVALID", path=path)
    return Credentials(principals)


def _key(word: str) -> bytes | None:
    """The digest that a token, or its digest in hex, is known by; None if it is neither."""
    if not word.startswith(HASHED):
        return _digest(word) if len(word) >= TOKEN_CHARS_MIN else None
    digits = word.removeprefix(HASHED)
    return bytes.fromhex(digits) if _DIGEST.fullmatch(digits) else None


def hashed(token: str) -> str:
    """A token as a file should hold it."""
    return f"{HASHED}{_digest(token).hex()}"


def read_tokens(file: Path) -> Credentials:
    """Credentials of a file. Raises InvalidArgument: reason TOKENS_INVALID."""
    try:
        with file.open("rb") as opened:
            text = opened.read(TOKENS_FILE_BYTES_MAX + 1)
        if len(text) > TOKENS_FILE_BYTES_MAX:
            what = f"it has more than {TOKENS_FILE_BYTES_MAX:,} bytes"
            raise InvalidArgument(what, reason="TOKENS_INVALID", path=str(file))
        return parse_tokens(text.decode(), path=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot be read: {error}", reason="TOKENS_INVALID", path=str(file)) from None


def check_listen(listen: str, *, open: bool) -> None:  # noqa: A002 - the word for it
    """Whether a server may listen there that is open to everybody who reaches it, or is not.

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
    if open and not is_loopback(host):
        raise FailedPrecondition(
            f"refusing to listen on {listen}, which others can reach, without credentials; "
            "configure a token file, an issuer of tokens or an authority for certificates, or listen on "
            "127.0.0.1",
            reason="CREDENTIALS_MISSING",
            path="listen",
        )
