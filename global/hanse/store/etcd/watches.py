"""All watches of one store, over one stream to one member.

The stream is opened when there is a watch, and again, at another member if possible, whenever it breaks; every watch
is then created anew from its cursor, unless it can be the guest of another one (``sharing``). A watch is known on the
stream by a number that is never used twice, so whatever still comes for one that was given up finds nobody.

etcd tells a lost token not as an error of the call but as a *cancelled* answer, older servers in the words of a
missing permission, and a stream keeps the token that it began with. So the first such answer makes us open the stream
again with a new token; only the second is believed. Such an answer does not even say which watch it is for; but every
creation is answered once, in the order of the requests.

While no stream can be had, readers wait. After ``OUTAGE_PATIENCE_S`` each is told, once, what is wrong, and goes on
waiting if it wants to.

Rejected: a stream for each watch (a connection of etcd bears few), and etcd's request for the progress of a whole
stream (servers before 3.4.25 and 3.5.8 answer it while events are still under way).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.kit.tasks import cancelled
from hanse.store.contract import Compacted, StoreUnavailable
from hanse.store.etcd import codec
from hanse.store.etcd.cluster import RETRY_FIRST_S, RETRY_MAX_S, TRY_S, Cluster
from hanse.store.etcd.faults import Failed, Fate, fate_of
from hanse.store.etcd.member import Member, StreamCall
from hanse.store.etcd.sharing import Sharing
from hanse.store.etcd.tokens import Metadata
from hanse.store.etcd.watch import EtcdWatch

log = logging.getLogger(__name__)

OUTAGE_PATIENCE_S: Final = 5.0
HOST_BEHIND_MAX: Final = 10_000
"""Revisions that a watch may be behind the store and still be another one's host: a guest has to wait for it."""

PROGRESS_EVERY_S: Final = 60.0
"""How often readers of guests are told how far they have come, if nothing else is told."""


class Watches:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._watches: dict[EtcdWatch, int] = {}
        self._by_id: dict[int, EtcdWatch] = {}
        self._sharing = Sharing()
        self._progressed_s = self._loop.time()
        self._creating: deque[int] = deque()
        self._last_id = 0
        self._streaming = False
        self._to_send: deque[pb.WatchRequest] = deque()
        self._news = asyncio.Event()
        self._down_since_s: float | None = None
        self._closed: StoreUnavailable | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self, start: str, end: str, *, from_revision: int) -> EtcdWatch:
        watch = EtcdWatch(self, start, end, from_revision=from_revision)
        if self._closed is not None:
            watch.end(self._closed)
            return watch
        self._watches[watch] = 0
        self.serve(watch)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="etcd-watches")
        return watch

    async def close(self, error: StoreUnavailable) -> None:
        self._closed = error
        if self._task is not None:
            await cancelled([self._task])
        for watch in self._watches:
            watch.end(error)
        self._watches.clear()

    # ------------------------------------------------------------------------------------- for the watches

    def serve(self, watch: EtcdWatch) -> None:
        idle = self._watches.get(watch) == 0 and not self._sharing.has_host(watch)
        if not self._streaming or not idle or not watch.wants_serving:
            self._news.set()
            return
        if self._join(watch):
            return
        self._last_id += 1
        self._watches[watch] = self._last_id
        self._by_id[self._last_id] = watch
        self._creating.append(self._last_id)
        watch.begin()
        self._send(
            codec.watch_request(watch.start, watch.stop, from_revision=watch.next_revision, watch_id=self._last_id)
        )

    def unserve(self, watch: EtcdWatch) -> None:
        self._sharing.leave(watch)
        watch_id = self._watches.get(watch, 0)
        if watch_id:
            self._watches[watch] = 0
            del self._by_id[watch_id]
            self._send(pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=watch_id)))
            self._part(watch)

    def forget(self, watch: EtcdWatch) -> None:
        self.unserve(watch)
        self._watches.pop(watch, None)

    def _join(self, watch: EtcdWatch) -> bool:
        """Make it the guest of a watch that is not ahead of it, if there is one."""
        for host in self._by_id.values():
            near = host.next_revision + HOST_BEHIND_MAX >= self._cluster.revision
            if host is not watch and host.covers(watch) and near and host.next_revision <= watch.next_revision:
                self.unserve(watch)
                watch.begin()
                self._sharing.join(watch, host)
                return True
        return False

    def _part(self, host: EtcdWatch) -> None:
        """It is not served any more: its guests need another host, or none."""
        for guest in self._sharing.disband(host):
            self.serve(guest)

    def _send(self, request: pb.WatchRequest) -> None:
        """At most two for each change of a watch; dropped with the stream."""
        self._to_send.append(request)
        self._news.set()

    # ------------------------------------------------------------------------------------------ the stream

    async def _run(self) -> None:
        """Keep a stream while there are watches, until cancelled."""
        pause_s = RETRY_FIRST_S
        while True:
            while not self._watches:
                self._news.clear()
                await self._news.wait()
            began_s = self._loop.time()
            metadata: Metadata = ()
            try:
                member = await self._cluster.member(until_s=began_s + TRY_S)
                metadata = await member.metadata(timeout_s=TRY_S)
                await self._stream(member, metadata)
            except StoreUnavailable as error:
                self._down(str(error))
            except Failed as failed:
                if failed.fate is Fate.NOT_KNOWN_TO:
                    self._cluster.tokens.refused(metadata)
                self._down(f"{self._cluster.name}: {failed.cause}")
            except Exception as error:
                # A bug must not leave readers waiting for ever: it is told to all, and the stream is opened again.
                log.exception("etcd_watches_failed")
                self._down(f"{self._cluster.name}: {type(error).__name__}: {error}")
            pause_s = RETRY_FIRST_S if self._loop.time() - began_s > TRY_S else min(RETRY_MAX_S, pause_s * 2)
            await asyncio.sleep(pause_s)

    def _down(self, cause: str) -> None:
        """There is no stream now."""
        now_s = self._loop.time()
        log.info("etcd_watches_down", extra={"cause": cause})
        if self._down_since_s is None:
            self._down_since_s = now_s
        if now_s - self._down_since_s >= OUTAGE_PATIENCE_S:
            self._down_since_s = now_s
            for watch in tuple(self._watches):
                watch.tell(StoreUnavailable(f"{cause}: the watch goes on when etcd is back"))

    async def _stream(self, member: Member, metadata: Metadata) -> None:
        """One stream, until it breaks. Raises Failed, always."""
        call: StreamCall[pb.WatchRequest, pb.WatchResponse] = member.watch.Watch(metadata=metadata)
        member.hold(call)
        sender = asyncio.create_task(self._write(call), name="etcd-watches-sender")
        self._streaming = True
        try:
            for watch in _widest_first(self._watches):
                self.serve(watch)
            while True:
                response = await member.read(call)
                self._down_since_s = None
                self._receive(response, metadata)
        finally:
            self._streaming = False
            self._by_id.clear()
            self._sharing.clear()
            self._creating.clear()
            self._to_send.clear()
            for watch in self._watches:
                self._watches[watch] = 0
            member.release(call)
            await cancelled([sender])

    async def _write(self, call: StreamCall[pb.WatchRequest, pb.WatchResponse]) -> None:
        """Send what is to be sent; the reader finds out when that does not work."""
        while True:
            while self._to_send:
                await call.write(self._to_send.popleft())
            self._news.clear()
            await self._news.wait()

    def _receive(self, response: pb.WatchResponse, metadata: Metadata) -> None:
        """Raises Failed if the stream has to be opened again."""
        watch_id = self._creating.popleft() if response.created else response.watch_id
        watch = self._by_id.get(watch_id)
        if watch is None:
            return
        if response.canceled:
            del self._by_id[watch_id]
            self._watches[watch] = 0
            try:
                self._canceled(watch, response, metadata)
            finally:
                self._part(watch)
        elif response.created:
            watch.denied = False
        else:
            try:
                self._offer(watch, response)
            except StoreUnavailable as error:
                self.unserve(watch)
                watch.tell(error)

    def _offer(self, watch: EtcdWatch, response: pb.WatchResponse) -> None:
        """What the server has to tell a watch, for it and its guests. Raises StoreUnavailable for a key that is not
        text."""
        now_s = self._loop.time()
        if response.events:
            found = codec.events(response.events, from_revision=watch.next_revision)
            self._sharing.feed(watch, watch.offer(found, fragment=response.fragment))
        elif not response.fragment:
            watch.progress(response.header.revision)
            self._sharing.progress(watch, response.header.revision)
        if now_s - self._progressed_s > PROGRESS_EVERY_S:
            self._progressed_s = now_s
            for host in self._by_id.values():
                self._sharing.progress(host, host.next_revision - 1)
        if self._watches.get(watch):
            self._join(watch)

    def _canceled(self, watch: EtcdWatch, response: pb.WatchResponse, metadata: Metadata) -> None:
        """The server has ended a watch."""
        if response.compact_revision:
            self._watches.pop(watch)
            watch.compacted(Compacted(response.compact_revision))
            return
        refused = fate_of(response.cancel_reason) in (Fate.DENIED, Fate.NOT_KNOWN_TO)
        if refused and (watch.denied or not self._cluster.tokens.user):
            watch.denied = False
            watch.tell(self._denial(watch))
            return
        watch.denied = refused
        if refused:
            self._cluster.tokens.refused(metadata)
        raise Failed(Fate.UNSURE, f"etcd has cancelled a watch ({response.cancel_reason or 'without a reason'})")

    def _denial(self, watch: EtcdWatch) -> StoreUnavailable:
        who = f"user {self._cluster.tokens.user!r}" if self._cluster.tokens.user else "us"
        return StoreUnavailable(
            f"{self._cluster.name} does not let {who} watch [{watch.start!r}, {watch.stop!r}): "
            "grant a role that may read and write every key"
        )


def _widest_first(watches: Iterable[EtcdWatch]) -> list[EtcdWatch]:
    """A watch comes before those whose range lies in its own."""
    return sorted(sorted(watches, key=lambda watch: watch.stop, reverse=True), key=lambda watch: watch.start)
