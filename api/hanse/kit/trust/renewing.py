"""Certificates renew themselves: a new key and a new certificate while the old one is still good.

A certificate is renewed once less than a third of its time is left. Files that somebody else renews meanwhile
(cert-manager, a script) are found new, and left alone; files that cannot be written, and certificates that nobody of
ours signs, are not renewed here at all.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.kit.tls import Identity, TlsFiles, channel
from hanse.kit.trust.asking import new_request
from hanse.kit.trust.files import Issued, can_be_replaced, read_shown, write_issued
from hanse.kit.trust.shown import Shown, shown_of
from hanse.link.v1 import join_pb2, join_pb2_grpc
from hanse.model.errors import FailedPrecondition, HanseError, Unavailable

log = logging.getLogger(__name__)

RENEW_AT: Final = 1 / 3
"""Of its time that is left when a certificate is renewed; up to EARLIER of it sooner, lest all come at once."""

EARLIER: Final = 0.1
LOOK_EVERY_S: Final = 30.0
ASK_DEADLINE_S: Final = 5.0
RETRY: Final = BackoffPolicy(first_s=1.0, max_s=60.0)
NOT_OURS_S: Final = 600.0
"""Pause after nobody of ours would sign: a replica that does may have come."""

Ask = Callable[[bytes, Identity, Shown], Awaitable[Issued]]
"""Has a request signed. Raises FailedPrecondition: nobody of ours does; and other HanseErrors: not now."""

_OPTIONS: Final = (("grpc.enable_retries", 0),)


class Renewer:
    """Keeps the certificate of one end new.

    Attributes:
        renewed: how often it was.
    """

    def __init__(self, files: TlsFiles, ask: Ask, clock: Clock, rng: random.Random) -> None:
        self.renewed = 0
        self._files = files
        self._ask = ask
        self._clock = clock
        self._rng = rng

    async def run(self) -> None:
        """Renew until cancelled."""
        backoff, earlier = Backoff(RETRY, self._rng), self._rng.uniform(0, EARLIER)
        while True:
            try:
                wait_s = self._wait_s(earlier)
                if wait_s <= 0:
                    await self._once()
                    backoff, earlier = Backoff(RETRY, self._rng), self._rng.uniform(0, EARLIER)
                    continue
            except FailedPrecondition as error:
                log.info("certificate_not_ours", extra={"cert": str(self._files.cert), "cause": str(error)})
                wait_s = NOT_OURS_S
            except HanseError as error:
                log.warning("renewal_failed", extra={"cert": str(self._files.cert), "cause": str(error)})
                wait_s = backoff.delay_s()
            await asyncio.sleep(min(wait_s, LOOK_EVERY_S))

    def _wait_s(self, earlier: float) -> float:
        assert self._files.cert is not None
        shown = read_shown(self._files.cert)
        part = (RENEW_AT + earlier) * (shown.ends_ms - shown.begins_ms)
        return (shown.ends_ms - part - self._clock.now_ms()) / 1_000

    async def _once(self) -> None:
        assert self._files.cert is not None
        shown = read_shown(self._files.cert)
        if not can_be_replaced(self._files):
            raise FailedPrecondition("the files cannot be written; whoever keeps them renews them", reason="FILE")
        if shown.identity is None:
            raise FailedPrecondition("the certificate is of nobody of ours", reason="IDENTITY_INVALID")
        key, request = new_request(shown.identity)
        issued = await self._ask(request, shown.identity, shown)
        _check(issued, shown.identity, key)
        write_issued(self._files, issued, key)
        self.renewed += 1
        log.info("certificate_renewed", extra={"identity": shown.identity.uri, "cert": str(self._files.cert)})


def _check(issued: Issued, identity: Identity, key: bytes) -> None:
    """Raises Unavailable: what was signed is not what was asked for."""
    try:
        cert = x509.load_pem_x509_certificate(issued.certificate)
        mine = serialization.load_pem_private_key(key, None).public_key()
    except ValueError:
        raise Unavailable("what was signed is no certificate", reason="RENEWAL") from None
    if shown_of(cert).identity != identity or cert.public_key() != mine:
        raise Unavailable("what was signed is another certificate than was asked for", reason="RENEWAL")


class AskReplicas:
    """Asks one replica after the other, each over a connection of its own that shows the present certificate.

    Args:
        addresses: HOST:PORT of each, as they are known now.
    """

    def __init__(self, addresses: Callable[[], Sequence[str]], files: TlsFiles) -> None:
        self._addresses = addresses
        self._files = files

    async def __call__(self, request: bytes, identity: Identity, shown: Shown) -> Issued:
        """See `Ask`."""
        refusal: HanseError | None = None
        for address in self._addresses():
            try:
                return await self._ask(address, request)
            except FailedPrecondition as error:
                refusal = error
            except HanseError as error:
                refusal = refusal or error
        raise refusal or Unavailable("no replica is known", reason="RENEWAL")

    async def _ask(self, address: str, request: bytes) -> Issued:
        async with channel(address, self._files, _OPTIONS) as opened:
            stub = join_pb2_grpc.RenewServiceStub(opened)
            try:
                answer = await stub.Renew(join_pb2.RenewRequest(request=request), timeout=ASK_DEADLINE_S)
            except grpc.aio.AioRpcError as error:
                said = f"replica at {address}: {error.details() or error.code().name}"
                if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED):
                    raise FailedPrecondition(said, reason="NO_AUTHORITY") from None
                raise Unavailable(said, reason="RENEWAL") from None
        return Issued(answer.certificate, answer.authorities)


@contextmanager
def certificates_told(files: TlsFiles | None, clock: Clock, authority_ends_ms: int | None = None) -> Iterator[None]:
    """Tell for how long the certificates of this process are good, while the block runs."""

    def observe() -> None:
        now_ms = clock.now_ms()
        if files is not None and files.cert is not None:
            try:
                shown = read_shown(files.cert)
            except HanseError:
                metrics.CERTIFICATE_LEFT.set(0.0, "own")
            else:
                metrics.CERTIFICATE_LEFT.set((shown.ends_ms - now_ms) / 1_000, "own")
                metrics.CERTIFICATE_LIFETIME.set((shown.ends_ms - shown.begins_ms) / 1_000, "own")
        if authority_ends_ms is not None:
            metrics.CERTIFICATE_LEFT.set((authority_ends_ms - now_ms) / 1_000, "authority")

    with metrics.REGISTRY.observed(observe):
        yield
