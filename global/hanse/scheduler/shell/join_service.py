"""How agents get their certificates: hanse.link.v1.JoinService and RenewService over gRPC.

JoinService is served on a port of its own, where nobody shows a certificate, so that a cluster which has none can
ask. Everything that comes there is a stranger's: messages and calls are few and small, a caller whose tokens were not
good is not listened to for a while, and is told no cause.

RenewService signs for whom the certificate that is shown stands for, with its names, and for nobody else. A pool that
has left gets no certificate any more, nor does one that is revoked.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import grpc

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.kit.tls import Identity, Kind
from hanse.kit.trust.asking import checked_request, key_digest
from hanse.kit.trust.authority import Authority
from hanse.kit.trust.shown import Barred, Shown, shown_by
from hanse.kit.trust.token import secret_digest
from hanse.link.v1 import join_pb2 as pb
from hanse.link.v1 import join_pb2_grpc
from hanse.model.errors import HanseError, InvalidArgument
from hanse.model.ids import PoolName
from hanse.model.names import is_subdomain
from hanse.store import joins
from hanse.store.contract import Store, StoreError

log = logging.getLogger(__name__)

REFUSALS_MAX: Final = 10
REFUSALS_WITHIN_S: Final = 60.0
"""A caller's address is not listened to for as long as so many of its tokens were not good within so long."""

CALLERS_MAX: Final = 10_000
"""Addresses that are remembered; the one that was refused longest ago is forgotten first."""

TOKEN_CHARS_MAX: Final = 128
CHARS_SHOWN: Final = 64
JOIN_MESSAGE_BYTES_MAX: Final = 32 * 1024
JOIN_CALLS_MAX: Final = 32
"""Calls under way on the port for strangers; beyond it they are refused."""


class Patience:
    """Counts what was refused, by the caller's address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: OrderedDict[str, deque[float]] = OrderedDict()

    def is_out(self, address: str) -> bool:
        """Whether the address is not listened to now."""
        times = self._refused.get(address)
        return times is not None and self._lately(times) >= REFUSALS_MAX

    def refused(self, address: str) -> None:
        """One more that was not good."""
        self._refused.setdefault(address, deque(maxlen=REFUSALS_MAX)).append(self._clock.monotonic())
        self._refused.move_to_end(address)
        if len(self._refused) > CALLERS_MAX:
            self._refused.popitem(last=False)

    def _lately(self, times: deque[float]) -> int:
        since = self._clock.monotonic() - REFUSALS_WITHIN_S
        return sum(time > since for time in times)


class JoinService(join_pb2_grpc.JoinServiceServicer):
    """Spends tokens.

    Args:
        replicas: HOST:PORT of those that are alive.
    """

    def __init__(
        self,
        store: Store,
        authority: Authority,
        clock: Clock,
        *,
        lifetime_s: float,
        federation: str,
        replicas: Callable[[], Sequence[str]],
    ) -> None:
        self._store = store
        self._authority = authority
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._federation = federation
        self._replicas = replicas
        self._patience = Patience(clock)

    async def Join(  # noqa: N802 - the name is the proto's
        self, request: pb.JoinRequest, context: "grpc.aio.ServicerContext[pb.JoinRequest, pb.JoinResponse]"
    ) -> pb.JoinResponse:
        """See hanse.link.v1.JoinService."""
        address = context.peer().rpartition(":")[0]
        if self._patience.is_out(address):
            said = f"too many tokens were not good; try again in {REFUSALS_WITHIN_S:.0f} s"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, said)
        if not is_subdomain(request.pool) or len(request.token) + len(request.secret) > TOKEN_CHARS_MAX:
            return await self._refuse(context, address, request, "it is malformed")
        identity = Identity(Kind.AGENT, request.pool)
        try:
            public = checked_request(request.request, identity)
            found = await joins.spend(
                self._store,
                request.token,
                secret_digest(request.secret),
                pool=request.pool,
                key=key_digest(public),
                now_ms=self._clock.now_ms(),
            )
        except InvalidArgument as error:
            self._patience.refused(address)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (HanseError, StoreError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the store does not answer; try again ({error})")
        if isinstance(found, joins.NotSpent):
            return await self._refuse(context, address, request, found.why)
        issued = self._authority.sign(
            public,
            identity,
            now_ms=self._clock.now_ms(),
            lifetime_s=self._lifetime_s,
            after_ms=found.barred_until_ms,
        )
        _tell("joined", identity)
        return pb.JoinResponse(
            certificate=issued.certificate,
            authorities=issued.authorities,
            federation=self._federation,
            replicas=self._replicas(),
        )

    async def _refuse(
        self, context: "grpc.aio.ServicerContext[Any, Any]", address: str, request: pb.JoinRequest, why: str
    ) -> NoReturn:
        self._patience.refused(address)
        metrics.FORGERIES.add(1, "token")
        fields = {"pool": request.pool[:CHARS_SHOWN], "token": request.token[:CHARS_SHOWN], "caller": address}
        log.warning("join_refused", extra={**fields, "cause": why})
        said = "the token is not good for that pool; `hanse join-token POOL` makes a new one"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)


class RenewService(join_pb2_grpc.RenewServiceServicer):
    """Signs again.

    Args:
        authority: None if this replica signs nothing.
        barred: which certificates are revoked.
        left: whether a pool has left the federation.
    """

    def __init__(
        self,
        authority: Authority | None,
        clock: Clock,
        *,
        lifetime_s: float,
        barred: Barred,
        left: Callable[[PoolName], bool],
    ) -> None:
        self._authority = authority
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._barred = barred
        self._left = left

    async def Renew(  # noqa: N802 - the name is the proto's
        self, request: pb.RenewRequest, context: "grpc.aio.ServicerContext[pb.RenewRequest, pb.RenewResponse]"
    ) -> pb.RenewResponse:
        """See hanse.link.v1.RenewService."""
        if self._authority is None:
            said = "this replica signs no certificates; whoever made this one renews it"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, said)
        shown = shown_by(context.auth_context())
        refusal = self._refusal(shown)
        if shown is None or shown.identity is None or refusal:
            metrics.FORGERIES.add(1, "certificate")
            log.warning("renewal_refused", extra={"cause": refusal})
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)
        try:
            public = checked_request(request.request, shown.identity)
        except InvalidArgument as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        issued = self._authority.sign(
            public, shown.identity, now_ms=self._clock.now_ms(), lifetime_s=self._lifetime_s, hosts=shown.hosts
        )
        _tell("renewed", shown.identity)
        return pb.RenewResponse(certificate=issued.certificate, authorities=issued.authorities)

    def _refusal(self, shown: Shown | None) -> str:
        if shown is None or shown.identity is None:
            return "there is no certificate of ours to renew"
        if shown.identity.kind is Kind.USER:
            return f"the certificate of {shown.identity} is renewed by whoever made it"
        if self._barred(shown):
            return f"the certificate of {shown.identity}, serial {shown.serial}, is revoked"
        if shown.identity.kind is Kind.AGENT and self._left(PoolName(shown.identity.name)):
            return f"pool {shown.identity.name} has left the federation"
        return ""


def _tell(how: str, identity: Identity) -> None:
    metrics.CERTIFICATES_ISSUED.add(1, how)
    log.info("certificate_issued", extra={"identity": identity.uri, "how": how})
