"""Starts the console beside an API server, in the same process."""

import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.credentials import check_listen
from hanse.apiserver.services import ApiServices
from hanse.console.access import Entry
from hanse.console.app import Console
from hanse.console.desk import Desk
from hanse.console.http_server import bound, served
from hanse.kit.clock import Clock
from hanse.kit.tls import TlsFiles
from hanse.model.errors import FailedPrecondition, Unavailable

AUTO: Final = "auto"
PORT: Final = 7310
NONCE_BITS: Final = 64


@asynccontextmanager
async def console(
    services: ApiServices,
    *,
    listen: str,
    callers: Callers,
    tls: TlsFiles | None,
    clock: Clock,
    rng: random.Random,
) -> AsyncIterator[str]:
    """Serve the console while the block runs; its address for a browser.

    Args:
        listen: HOST:PORT; `HOST:auto` takes the usual port, or a free one where that is taken.

    Raises:
        FailedPrecondition: reason CREDENTIALS_MISSING; others could reach it, and nobody would be asked who they are.
        InvalidArgument: reason LISTEN_INVALID.
        Unavailable: reason ADDRESS_UNUSABLE.
    """
    host, _, port = listen.rpartition(":")
    check_listen(f"{host}:{PORT}" if port == AUTO else listen, open=callers.open)
    if callers.certificates and not callers.tokens:
        raise FailedPrecondition(
            "a browser shows no certificate here, so the console needs tokens; name a tokens_file or an issuer",
            reason="CREDENTIALS_MISSING",
            path="console",
        )
    sock = _usual(host) if port == AUTO else bound(host, int(port))
    page = Console(Desk(services), Entry(callers, host=host, secure=tls is not None), clock, _nonces(rng))
    shown = f"{'https' if tls is not None else 'http'}://{host}:{sock.getsockname()[1]}"
    try:
        async with served(page.app, sock, tls):
            yield shown
    finally:
        await page.hubs.close()


def _usual(host: str) -> socket.socket:
    try:
        return bound(host, PORT)
    except Unavailable:
        return bound(host, 0)


def _nonces(rng: random.Random) -> Callable[[], str]:
    return lambda: f"{rng.getrandbits(NONCE_BITS):016x}"
