"""Documents of an issuer of tokens over HTTPS: one configured place, no redirects, bounded in size and time."""

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from hanse.kit.addresses import is_loopback
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.model.names import quoted

DOCUMENT_BYTES_MAX: Final = 256 * 1_024
DEADLINE_S: Final = 4.0
DISCOVERY: Final = "/.well-known/openid-configuration"


class _Discovery(msgspec.Struct):
    """What is needed of a discovery document."""

    issuer: str
    jwks_uri: str


def check_url(url: str, *, path: str) -> None:
    """Raises InvalidArgument: not an https:// address; http:// is taken on the loopback alone."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not safe or not parts.hostname or parts.username or parts.query or parts.fragment or port == 0:
        raise InvalidArgument(
            f"{quoted(url)} is not https://HOST/PATH; keys that come in clear could be anybody's", path=path
        )


def from_file(file: Path) -> Callable[[], Awaitable[bytes]]:
    """Reads a file."""

    async def read() -> bytes:
        try:
            with file.open("rb") as opened:
                found = opened.read(DOCUMENT_BYTES_MAX + 1)
        except OSError as error:
            raise Unavailable(f"cannot be read: {error.strerror}", path=str(file)) from None
        return _bounded(found, str(file))

    return read


def from_url(url: str, ca: Path | None = None) -> Callable[[], Awaitable[bytes]]:
    """Reads a place of which the address is known."""

    async def read() -> bytes:
        return await _get(url, ca)

    return read


def from_issuer(issuer: str, ca: Path | None = None) -> Callable[[], Awaitable[bytes]]:
    """Reads the keys from where the issuer's discovery document says, which has to be at the issuer itself."""

    async def read() -> bytes:
        place = issuer.rstrip("/") + DISCOVERY
        try:
            found = msgspec.json.decode(await _get(place, ca), type=_Discovery)
        except msgspec.MsgspecError:
            raise Unavailable("it is no discovery document of OpenID Connect", path=place) from None
        if found.issuer != issuer:
            raise Unavailable(f"it is of issuer {quoted(found.issuer)}, not of {quoted(issuer)}", path=place)
        if _origin(found.jwks_uri) != _origin(issuer):
            what = f"its keys are elsewhere, at {quoted(found.jwks_uri)}: if that is right, set oidc_keys to it"
            raise Unavailable(what, path=place)
        return await _get(found.jwks_uri, ca)

    return read


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None


async def _get(url: str, ca: Path | None) -> bytes:
    """The body of a document. Raises Unavailable."""
    try:
        trust = ssl.create_default_context(cafile=ca) if ca is not None else True
        timeout = aiohttp.ClientTimeout(total=DEADLINE_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, allow_redirects=False, ssl=trust, headers={"accept": "application/json"}) as answer,
        ):
            if answer.status != 200:
                raise Unavailable(f"answers {answer.status}", path=url)
            found = bytearray()
            async for piece in answer.content.iter_chunked(16 * 1_024):
                found += piece
                if len(found) > DOCUMENT_BYTES_MAX:
                    break
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Unavailable(f"cannot be fetched: {str(error) or type(error).__name__}", path=url) from None
    return _bounded(bytes(found), url)


def _bounded(found: bytes, where: str) -> bytes:
    if len(found) > DOCUMENT_BYTES_MAX:
        raise Unavailable(f"it has more than {DOCUMENT_BYTES_MAX:,} bytes", path=where)
    return found
