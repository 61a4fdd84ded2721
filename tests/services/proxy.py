"""A relay between two processes that can hold back what goes either way, delay it, or break every connection.

What is held back is not lost: it arrives when the relay heals, as TCP delivers after a network that lost packets for
a while. To the process whose bytes are held the other end has fallen silent; to the other end, nothing comes.
"""

import asyncio
import contextlib
from typing import Final

CHUNK_BYTES: Final = 65_536


class Relay:
    """Listens on a loopback port and passes bytes on to `target`.

    Attributes:
        port: where it listens, for as long as the relay lives.
    """

    def __init__(self, name: str, port: int, target: str) -> None:
        self.name = name
        self.port = port
        host, _, target_port = target.rpartition(":")
        self._target = (host, int(target_port))
        self._open = {"there": asyncio.Event(), "back": asyncio.Event()}
        self._delay_s = 0.0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.heal()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.heal()
        self.reset()

    def hold(self, *, there: bool = False, back: bool = False) -> None:
        """Nothing gets through in these directions until `heal`."""
        if there:
            self._open["there"].clear()
        if back:
            self._open["back"].clear()

    def slow(self, delay_s: float) -> None:
        """Every piece takes so much longer, either way."""
        self._delay_s = delay_s

    def heal(self) -> None:
        """As it was; what was held back arrives."""
        self._delay_s = 0.0
        for way in self._open.values():
            way.set()

    def reset(self) -> None:
        """Break every connection; new ones are accepted."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(
                self._pass(reader, far_writer, self._open["there"]),
                self._pass(far_reader, writer, self._open["back"]),
            )
        finally:
            self._writers -= {writer, far_writer}
            for end in (writer, far_writer):
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await way.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()
