"""The issuer of tokens that settings name, put together."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from hanse.apiserver.access.fetching import check_url, from_file, from_issuer, from_url
from hanse.apiserver.access.keys import ASKED_AGAIN_S, FRESH_S, KeyCache
from hanse.apiserver.access.oidc import Keys, OidcTerms, OidcTokens, parse_keys
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument

FILE_FRESH_S: Final = 10.0
"""Keys of a file are read again after this time: it costs nothing."""


def opened_issuer(terms: OidcTerms, keys: str, ca: Path | None, clock: Clock) -> OidcTokens | None:
    """The issuer; None if none is named.

    Args:
        keys: address or file of its keys; "" for where its discovery document says.

    Raises:
        InvalidArgument: with the name of the setting.
    """
    if not terms.issuer:
        if keys or terms.audiences:
            raise InvalidArgument("it says nothing without an oidc_issuer; name it", path="oidc_audience")
        return None
    if not terms.audiences:
        what = "is missing: tokens that the issuer made for somebody else would be taken; name what they are for"
        raise InvalidArgument(what, reason="MISSING", path="oidc_audience")
    check_url(terms.issuer, path="oidc_issuer")
    fetch = _source(terms.issuer, keys, ca)

    async def read() -> Keys:
        return parse_keys(await fetch())

    if keys and "://" not in keys:
        return OidcTokens(terms, KeyCache(read, clock, fresh_s=FILE_FRESH_S, asked_again_s=1.0))
    return OidcTokens(terms, KeyCache(read, clock, fresh_s=FRESH_S, asked_again_s=ASKED_AGAIN_S))


def _source(issuer: str, keys: str, ca: Path | None) -> Callable[[], Awaitable[bytes]]:
    if not keys:
        return from_issuer(issuer, ca)
    if "://" not in keys:
        return from_file(Path(keys).expanduser())
    check_url(keys, path="oidc_keys")
    return from_url(keys, ca)
