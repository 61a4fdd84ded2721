"""Bytes of bad faith at the ports: whatever comes, others are served, and nobody holds a place for nothing."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from hanse.apiserver.serving import RECEIVED_BYTES_MAX
from hanse.kit.tls import TlsFiles, channel
from hanse.link.v1 import link_pb2 as pb
from hanse.up.global_trust import JOIN_HANDSHAKE_MAX_S
from hanse.up.joining import join
from tests.integration.api.test_door import PATIENCE_S
from tests.integration.api.test_join_service import door
from tests.integration.api.test_tls import first_answer, server
from tests.services.authority import Authority

SILENT = 200
ATTACH, CARRY = "/hanse.link.v1.LinkService/Attach", "/hanse.link.v1.LinkService/Carry"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def said(address: str, files: TlsFiles, method: str, body: bytes) -> grpc.StatusCode:
    """What a stream that begins with these bytes comes to."""
    sends = (("grpc.max_send_message_length", -1),)
    async with channel(address, files, sends) as opened:
        open_stream: Any = opened.stream_stream(method)
        call = open_stream(_once(body))
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for _ in call:
                    pass
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
    await asyncio.Event().wait()


@pytest.mark.parametrize("method", [ATTACH, CARRY])
async def test_messages_that_are_too_large_or_none_end_their_own_call(authority: Authority, method: str) -> None:
    oslo = authority.issue("oslo", "hanse://agent/oslo")
    async with server(authority.issue("r0", "hanse://replica/r0")) as address:
        large = pb.AttachRequest(hello=pb.Hello(pool="oslo", region="x" * (RECEIVED_BYTES_MAX + 1)))
        assert await said(address, oslo, method, large.SerializeToString()) is grpc.StatusCode.RESOURCE_EXHAUSTED
        for body in (b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f", b"\x00"):
            assert await said(address, oslo, method, body) is not grpc.StatusCode.OK
        assert (await first_answer(address, oslo, "oslo")).welcome.replica == "oslo"


async def test_headers_without_end_are_refused(authority: Authority) -> None:
    oslo = authority.issue("oslo", "hanse://agent/oslo")
    async with (
        server(authority.issue("r0", "hanse://replica/r0")) as address,
        channel(address, oslo, (("grpc.max_metadata_size", 1 << 24),)) as opened,
    ):
        call: Any = opened.unary_unary("/hanse.api.v1.ServerService/GetServerInfo")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"", metadata=[(f"x-{n}", "y" * 1_000) for n in range(100)], timeout=PATIENCE_S)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await first_answer(address, oslo, "oslo")).welcome.replica == "oslo"


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(100), bytes(70_000)])
async def test_what_speaks_no_tls_is_hung_up_on(authority: Authority, words: bytes) -> None:
    oslo = authority.issue("oslo", "hanse://agent/oslo")
    async with server(authority.issue("r0", "hanse://replica/r0")) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        with suppress(OSError):  # hung up on already
            writer.write(words)
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                assert b"HTTP/1.1 200" not in await reader.read()
        writer.close()
        assert (await first_answer(address, oslo, "oslo")).welcome.replica == "oslo"


async def test_who_connects_and_says_nothing_keeps_nobody_out_and_is_hung_up_on(tmp_path: Path) -> None:
    """A slow handshake, and one that stops in the midst of HTTP/2; at the port that is open to strangers."""
    async with door(tmp_path) as found:
        host, _, port = found.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(SILENT)]
        for _, writer in silent[::2]:
            writer.write(b"\x16\x03\x01")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        half = await asyncio.open_connection(host, int(port), ssl=context)
        half[1].write(b"PRI * HTTP/2.0\r\n")
        await join(found.address, (await found.token()).text, "oslo", tmp_path / "oslo")
        async with asyncio.timeout(JOIN_HANDSHAKE_MAX_S + PATIENCE_S):
            for reader, writer in (*silent, half):
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
