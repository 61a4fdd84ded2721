"""A token with which one cluster joins once: which token, the secret, and the pin of the authority.

    hj1.ID.SECRET.PIN

The server keeps the digest of the secret alone. The pin is the authority's, so whoever has the token knows whether he
speaks to the right federation before he says the secret.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Final, Self

from hanse.model.errors import InvalidArgument

ID_BYTES: Final = 6
SECRET_BYTES: Final = 24
PIN_BYTES: Final = 32

_FORM: Final = re.compile(
    rf"hj1\.(?P<id>[0-9a-f]{{{2 * ID_BYTES}}})\.(?P<secret>[0-9a-f]{{{2 * SECRET_BYTES}}})"
    rf"\.(?P<pin>[0-9a-f]{{{2 * PIN_BYTES}}})"
)


@dataclass(frozen=True, slots=True)
class JoinToken:
    """See the module; everything in lower-case hexadecimal."""

    id: str
    secret: str = field(repr=False)
    pin: str = ""

    @classmethod
    def new(cls, pin: str) -> Self:
        """A token that nobody can guess."""
        return cls(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES), pin)

    @classmethod
    def read(cls, text: str) -> Self:
        """The inverse of `text`. Raises InvalidArgument: reason TOKEN_INVALID; what was given is never shown."""
        found = _FORM.fullmatch(text.strip())
        if found is None:
            what = "it is no token to join with; `hanse join-token POOL` makes one that begins with hj1."
            raise InvalidArgument(what, reason="TOKEN_INVALID", path="--token")
        return cls(**found.groupdict())

    @property
    def text(self) -> str:
        """As it is handed over."""
        return f"hj1.{self.id}.{self.secret}.{self.pin}"


def secret_digest(secret: str) -> str:
    """What is kept of a secret. It has 192 random bits, so a plain hash is not guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()
