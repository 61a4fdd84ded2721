"""Where keys are fetched from: the place that is configured, and none that an answer or a token would like better."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hanse.apiserver.access import fetching
from hanse.apiserver.access.fetching import DOCUMENT_BYTES_MAX, check_url, from_file, from_issuer, from_url
from hanse.model.errors import InvalidArgument, Unavailable

Answers = Callable[[str], bytes]


@dataclass
class Site:
    """A web site of canned answers that counts what it was asked for."""

    address: str = ""
    asked: list[str] = field(default_factory=list)


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *more, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def site(answer: Callable[["Site", str], bytes], *, hang: bool = False) -> AsyncIterator[Site]:
    found = Site()
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        found.asked.append(request.split()[1].decode())
        writer.write(answer(found, found.asked[-1]))
        await writer.drain()
        if hang:
            await held.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.address = "http://{}:{}".format(*server.sockets[0].getsockname())
    async with server:
        yield found
        held.set()


async def test_keys_are_found_by_the_issuers_own_document() -> None:
    def answer(at: Site, path: str) -> bytes:
        if path.startswith("/.well-known"):
            return http(json.dumps({"issuer": at.address, "jwks_uri": f"{at.address}/keys", "x": 1}).encode())
        return http(b"the keys")

    async with site(answer) as at:
        assert await from_issuer(at.address)() == b"the keys"
        assert at.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"issuer": "https://evil.example", "jwks_uri": "{}/keys"}, "it is of issuer"),
        ({"issuer": "{}", "jwks_uri": "http://169.254.169.254/latest"}, "set oidc_keys"),
        ({"issuer": "{}", "jwks_uri": "file:///etc/passwd"}, "set oidc_keys"),
        ({"issuer": "{}", "jwks_uri": "{}@evil.example/keys"}, "set oidc_keys"),
        ({"issuer": "{}", "jwks_uri": "http://[broken"}, "set oidc_keys"),
        ({"issuer": "{}"}, "no discovery document"),
        (["issuer"], "no discovery document"),
    ],
)
async def test_a_document_leads_nowhere_else(document: object, said: str) -> None:
    def answer(at: Site, path: str) -> bytes:
        return http(json.dumps(document).replace("{}", at.address).encode())

    async with site(answer) as at:
        with pytest.raises(Unavailable, match=said):
            await from_issuer(at.address)()
        assert at.asked == ["/.well-known/openid-configuration"]


async def test_no_redirect_is_followed() -> None:
    async with site(lambda at, path: http(b"", "302 Found", "location: /elsewhere")) as at:
        with pytest.raises(Unavailable, match="answers 302"):
            await from_url(f"{at.address}/keys")()
        assert at.asked == ["/keys"]


async def test_an_answer_without_end_is_cut_off() -> None:
    async with site(lambda at, path: http(b"k" * (DOCUMENT_BYTES_MAX + 1))) as at:
        with pytest.raises(Unavailable, match="more than"):
            await from_url(at.address)()


async def test_a_site_that_drips_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "DEADLINE_S", 0.2)
    async with site(lambda at, path: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", hang=True) as at:
        with pytest.raises(Unavailable, match="cannot be fetched"):
            await from_url(at.address)()


async def test_nobody_there() -> None:
    with pytest.raises(Unavailable, match="cannot be fetched"):
        await from_url("http://127.0.0.1:1/keys")()


async def test_keys_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        await from_file(tmp_path / "keys")()
    (tmp_path / "keys").write_bytes(b"k")
    assert await from_file(tmp_path / "keys")() == b"k"


@pytest.mark.parametrize("url", ["https://login.example.org/realm", "http://127.0.0.1:80/x", "http://localhost/x"])
def test_places_that_are_taken(url: str) -> None:
    check_url(url, path="oidc_issuer")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "login.example.org",
        "http://login.example.org",
        "http://10.0.0.1/keys",
        "file:///etc/passwd",
        "ftp://x/y",
        "https://user:word@x/y",
        "https://x/y?z=1",
        "https://x/y#z",
        "https://x:99999999/",
        "https://[x",
        "http://127.0.0.1@evil.example/",
    ],
)
def test_places_that_are_not(url: str) -> None:
    with pytest.raises(InvalidArgument):
        check_url(url, path="oidc_issuer")
