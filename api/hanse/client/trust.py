"""Who is let in, as coroutines: tokens with which clusters join, and certificates that are believed no more."""

from typing import TYPE_CHECKING

from hanse.api.v1 import trust_service_pb2, trust_service_pb2_grpc
from hanse.client.calls import Connection

if TYPE_CHECKING:
    from hanse.api.v1.trust_service_pb2 import CreateJoinTokenResponse, JoinToken, Revocation


class Trust:
    """Reached as `AsyncClient.trust`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def _stub(self) -> "trust_service_pb2_grpc.TrustServiceAsyncStub":
        return trust_service_pb2_grpc.TrustServiceStub(self._connection.channel)

    async def create_join_token(self, pool: str, *, ttl_s: int = 0) -> "CreateJoinTokenResponse":
        """A token with which the agent of a pool joins once, and where. Its secret is told this once."""
        request = trust_service_pb2.CreateJoinTokenRequest(pool=pool, ttl_s=ttl_s)
        return await self._connection.unary(self._stub.CreateJoinToken, request)

    async def join_tokens(self) -> "list[JoinToken]":
        """Tokens that are good, and those that were spent within a day; oldest first."""
        request = trust_service_pb2.ListJoinTokensRequest()
        return list((await self._connection.unary(self._stub.ListJoinTokens, request)).tokens)

    async def delete_join_token(self, token: str, *, request_id: str = "") -> None:
        """Take a token back, by its id."""
        request = trust_service_pb2.DeleteJoinTokenRequest(id=token, request_id=self._id(request_id))
        await self._connection.unary(self._stub.DeleteJoinToken, request)

    async def revoke(
        self, *, identity: str = "", serial: str = "", reason: str = "", request_id: str = ""
    ) -> "Revocation":
        """Believe certificates no more: all so far of an identity (`hanse://agent/oslo`), or one by its number."""
        request = trust_service_pb2.RevokeCertificatesRequest(
            identity=identity, serial=serial, reason=reason, request_id=self._id(request_id)
        )
        return await self._connection.unary(self._stub.RevokeCertificates, request)

    async def revocations(self) -> "list[Revocation]":
        """What is revoked."""
        request = trust_service_pb2.ListRevocationsRequest()
        return list((await self._connection.unary(self._stub.ListRevocations, request)).revocations)

    async def believe_again(self, *, identity: str = "", serial: str = "", request_id: str = "") -> None:
        """Take a revocation back."""
        request = trust_service_pb2.DeleteRevocationRequest(
            identity=identity, serial=serial, request_id=self._id(request_id)
        )
        await self._connection.unary(self._stub.DeleteRevocation, request)

    def _id(self, given: str) -> str:
        return self._connection.request_id(given)
