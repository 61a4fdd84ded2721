"""The relay through which chaos goes does to a connection what it says, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.services.process import free_ports
from tests.services.proxy import Relay

PATIENCE_S = 10.0


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Relay, asyncio.StreamReader, asyncio.StreamWriter, list[bytes]]]:
    """A relay before a server that echoes, a connection through it, and what the server has heard."""
    heard: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            heard.append(chunk)
            writer.write(chunk)
        writer.close()

    server_port, relay_port = free_ports(2)
    async with await asyncio.start_server(echo, "127.0.0.1", server_port):
        relay = Relay("relay", relay_port, f"127.0.0.1:{server_port}")
        await relay.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay_port)
        try:
            yield relay, reader, writer, heard
        finally:
            writer.transport.abort()
            await relay.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read(100)


async def broken(reader: asyncio.StreamReader) -> bool:
    try:
        return await answer(reader) == b""
    except ConnectionResetError:
        return True


async def test_bytes_pass_both_ways() -> None:
    async with echoing() as (_, reader, writer, _):
        writer.write(b"one")
        assert await answer(reader) == b"one"


@pytest.mark.parametrize(("there", "reaches"), [(True, False), (False, True)])
async def test_one_direction_is_held_and_what_was_held_arrives(there: bool, reaches: bool) -> None:
    async with echoing() as (relay, reader, writer, heard):
        writer.write(b"one")
        assert await answer(reader) == b"one"
        relay.hold(there=there, back=not there)
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(100)
        assert (b"two" in heard) is reaches
        relay.heal()
        assert await answer(reader) == b"two"


async def test_a_reset_breaks_connections_and_new_ones_pass() -> None:
    async with echoing() as (relay, reader, writer, _):
        writer.write(b"one")
        assert await answer(reader) == b"one"
        relay.reset()
        assert await broken(reader)
        again, more = await asyncio.open_connection("127.0.0.1", relay.port)
        more.write(b"two")
        assert await answer(again) == b"two"
        more.transport.abort()


async def test_a_server_that_is_down_refuses_through_the_relay_too() -> None:
    server_port, relay_port = free_ports(2)
    relay = Relay("relay", relay_port, f"127.0.0.1:{server_port}")
    await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay_port)
    assert await broken(reader)
    writer.transport.abort()
    await relay.close()
