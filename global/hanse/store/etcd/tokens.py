"""Who we are to etcd: the metadata of every request, with a token if there is a user.

A token lapses with time, with its member's restart, and with every change of users, so it is asked for again whenever
one is not accepted; of many requests that find out at once, one asks. Where etcd knows us by our certificate there is
nothing to do. That etcd may have authentication switched off although we have a user is no error: it is how a cluster
is set up.
"""

import asyncio
import logging
from typing import Final

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.etcd.faults import Failed, Fate
from hanse.store.etcd.member import Member, Metadata

log = logging.getLogger(__name__)

WITH_LEADER: Final = ("hasleader", "true")
"""A member without a leader then refuses at once instead of letting us wait."""


class Tokens:
    """The metadata of one store."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password
        self._lock = asyncio.Lock()
        self._current: Metadata | None = None if user else (WITH_LEADER,)

    async def metadata(self, member: Member, *, timeout_s: float) -> Metadata:
        """What to send. Raises Failed: DENIED for a wrong password, else NOT_DONE."""
        if self._current is not None:
            return self._current
        async with self._lock:
            if self._current is None:
                self._current = await self._authenticate(member, timeout_s)
            return self._current

    @property
    def token(self) -> Metadata:
        """The token alone, if there is one now: for requests that need no leader."""
        return (self._current or ())[1:]

    def refused(self, metadata: Metadata) -> None:
        """This is not accepted (any more): ask for another one next time."""
        if self.user and self._current is metadata:
            self._current = None

    async def _authenticate(self, member: Member, timeout_s: float) -> Metadata:
        request = pb.AuthenticateRequest(name=self.user, password=self._password)
        try:
            answer = await member.call(
                member.auth.Authenticate, request, timeout_s=timeout_s, metadata=(WITH_LEADER,)
            )
        except Failed as failed:
            if "authentication is not enabled" in failed.cause:
                log.warning("etcd_authentication_off", extra={"user": self.user})
                return (WITH_LEADER,)
            # Whatever became of it, the request that needs the token was not sent.
            raise failed if failed.fate is Fate.DENIED else Failed(Fate.NOT_DONE, failed.cause) from None
        return (WITH_LEADER, ("token", answer.token))
