"""Who we are to etcd: the metadata of every request, with a token if there is a user.

A token lapses with time, with its member's restart, and with every change of users, so it is asked for again whenever
one is not accepted; of many requests that find out at once, one asks. A wrong password is not tried again at once:
etcd makes every try expensive. Where etcd knows us by our certificate there is nothing to do. That etcd may have
authentication switched off although we have a user is no error: it is how a cluster is set up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.etcd.faults import Failed, Fate

log = logging.getLogger(__name__)

Metadata: TypeAlias = tuple[tuple[str, str], ...]
Authenticate: TypeAlias = Callable[[pb.AuthenticateRequest], Awaitable[pb.AuthenticateResponse]]
"""Ask a member. Raises Failed."""

WITH_LEADER: Final = ("hasleader", "true")
"""A member without a leader then refuses at once instead of letting us wait."""

DENIED_PAUSE_S: Final = 2.0
"""How long a refused password counts as refused."""


class Tokens:
    """The metadata of one store."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password
        self._lock = asyncio.Lock()
        self._current: Metadata | None = None if user else (WITH_LEADER,)
        self._denied: Failed | None = None
        self._denied_until_s = 0.0

    async def metadata(self, authenticate: Authenticate) -> Metadata:
        """What to send. Raises Failed: DENIED for a wrong password, else NOT_DONE."""
        if self._current is not None:
            return self._current
        async with self._lock:
            if self._current is None:
                self._current = await self._obtain(authenticate)
            return self._current

    @property
    def token(self) -> Metadata:
        """The token alone, if there is one now: for requests that need no leader."""
        return (self._current or ())[1:]

    def refused(self, metadata: Metadata) -> None:
        """Its token is not accepted (any more), or its lack: ask for another one next time."""
        if self.user and _token_in(metadata) == _token_in(self._current or ()):
            self._current = None

    async def _obtain(self, authenticate: Authenticate) -> Metadata:
        now_s = asyncio.get_running_loop().time()
        if self._denied is not None and now_s < self._denied_until_s:
            raise self._denied
        try:
            answer = await authenticate(pb.AuthenticateRequest(name=self.user, password=self._password))
        except Failed as failed:
            if "authentication is not enabled" in failed.cause:
                log.warning("etcd_authentication_off", extra={"user": self.user})
                return (WITH_LEADER,)
            if failed.fate is Fate.DENIED:
                self._denied, self._denied_until_s = failed, now_s + DENIED_PAUSE_S
                raise
            # Whatever became of it, the request that needs the token was not sent.
            raise Failed(Fate.NOT_DONE, failed.cause) from None
        self._denied = None
        return (WITH_LEADER, ("token", answer.token))


def _token_in(metadata: Metadata) -> str:
    return next((value for name, value in metadata if name == "token"), "")
