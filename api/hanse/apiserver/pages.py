"""Page tokens: where a listing goes on. Opaque to clients, readable to nobody but this module.

A token names the last key that was looked at, the revision of the first page (all pages of one listing show one
moment), and a hash of the filter, so that a token is never used for another listing by mistake. Tokens are not
signed: whoever forges one sees only what another filter would have shown them.
"""

import base64
import binascii
import hashlib
from typing import Final

import msgspec
from google.protobuf.message import Message

from hanse.model.errors import InvalidArgument

TOKEN_CHARS_MAX: Final = 4_096
FILTER_HASH_BYTES: Final = 6


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where to go on.

    Attributes:
        filter: hash of the request that the first page answered.
        revision: of that page, 0 if the listing is not tied to one.
        after: the last key that was looked at.
    """

    filter: str
    revision: int
    after: str


def filter_hash(request: Message) -> str:
    """A hash of what a listing asks for, apart from how it is paged."""
    asked = type(request)()
    asked.CopyFrom(request)
    for name in {"page_token", "page_size"}.intersection(asked.DESCRIPTOR.fields_by_name):
        asked.ClearField(name)
    body = type(request).__name__.encode() + asked.SerializeToString(deterministic=True)
    return hashlib.blake2b(body, digest_size=FILTER_HASH_BYTES).hexdigest()


def write_token(token: PageToken) -> str:
    """The text of a token."""
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def read_token(text: str, request: Message) -> PageToken:
    """The token that belongs to this request; "" gives the first page.

    Raises:
        InvalidArgument: reason PAGE_TOKEN_INVALID; not a token, or one of another listing.
    """
    asked = filter_hash(request)
    if not text:
        return PageToken(asked, 0, "")
    try:
        if len(text) > TOKEN_CHARS_MAX:
            raise ValueError("too long")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=PageToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise invalid_token("is not a page token of this server") from None
    if token.filter != asked:
        raise invalid_token("belongs to a listing with another filter")
    if token.revision < 0 or not token.after or "\0" in token.after:
        raise invalid_token("is not a page token of this server")
    return token


def invalid_token(what: str) -> InvalidArgument:
    """The refusal of a token; `what` follows "it"."""
    return InvalidArgument(
        f"the page token {what}: list again from the first page", reason="PAGE_TOKEN_INVALID", path="page_token"
    )


def page_size(asked: int, *, default: int, most: int) -> int:
    """The size of a page: the default for 0, cut to what is allowed.

    Raises:
        InvalidArgument: reason PAGE_SIZE_INVALID; negative.
    """
    if asked < 0:
        raise InvalidArgument(
            f"{asked} is not a page size; use 0 for {default}, or 1 to {most}",
            reason="PAGE_SIZE_INVALID",
            path="page_size",
        )
    return min(asked, most) if asked else default
