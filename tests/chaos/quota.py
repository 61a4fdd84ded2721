"""S6 from outside: at no revision of the store do the live bindings of a queue take more than its quota.

Follows the store's own history by a watch, from member to member. Of values it knows only that a binding is JSON with
`charges`, and of keys that a binding's names its job, and a job's id begins with the uid of its queue.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import grpc

from hanse.etcd.v3 import rpc_pb2, rpc_pb2_grpc

PREFIX: Final = b"bindings/"
PREFIX_END: Final = b"bindings0"
RESOURCE: Final = "nvidia.com/gpu"
DELETE: Final = 1
RETRY_S: Final = 0.2
CAUGHT_UP_DEADLINE_S: Final = 60.0


class QuotaWatch:
    """What every queue takes, revision by revision.

    Args:
        endpoints: of the members of etcd, past all relays.
        nominal: GPUs that each queue may take, by its uid.

    Attributes:
        found: what is wrong, one line for each revision and queue.
        most: the most GPUs that each queue ever took.
    """

    def __init__(self, endpoints: Sequence[str], nominal: Mapping[str, int]) -> None:
        self._endpoints = endpoints
        self._nominal = nominal
        self._taken: dict[str, dict[str, int]] = defaultdict(dict)
        self._revision = 0
        self.found: list[str] = []
        self.most: dict[str, int] = defaultdict(int)

    async def follow(self) -> None:
        """Until it is cancelled."""
        at = 0
        while True:
            try:
                async with grpc.aio.insecure_channel(self._endpoints[at % len(self._endpoints)]) as channel:
                    await self._watch(channel)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(RETRY_S)
            at += 1

    async def caught_up(self) -> None:
        """Until the history that was followed leads to the bindings that there are; to be asked when all is quiet."""
        async with asyncio.timeout(CAUGHT_UP_DEADLINE_S), grpc.aio.insecure_channel(self._endpoints[0]) as channel:
            stub: rpc_pb2_grpc.KVAsyncStub = rpc_pb2_grpc.KVStub(channel)
            request = rpc_pb2.RangeRequest(key=PREFIX, range_end=PREFIX_END, keys_only=True)
            while True:
                answer = await stub.Range(request, timeout=CAUGHT_UP_DEADLINE_S)
                if {kv.key.decode() for kv in answer.kvs} == {key for taken in self._taken.values() for key in taken}:
                    return
                await asyncio.sleep(RETRY_S)

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        stub: rpc_pb2_grpc.WatchAsyncStub = rpc_pb2_grpc.WatchStub(channel)
        answers = stub.Watch()
        try:
            await answers.write(rpc_pb2.WatchRequest(create_request=self._create()))
            async for answer in answers:
                self._take(answer)
        finally:
            answers.cancel()

    def _create(self) -> rpc_pb2.WatchCreateRequest:
        return rpc_pb2.WatchCreateRequest(key=PREFIX, range_end=PREFIX_END, start_revision=self._revision + 1)

    def _take(self, answer: rpc_pb2.WatchResponse) -> None:
        if answer.compact_revision:
            raise AssertionError(f"history before {answer.compact_revision} is gone, seen up to {self._revision}")
        by_revision: dict[int, list[rpc_pb2.Event]] = defaultdict(list)
        for event in answer.events:
            by_revision[event.kv.mod_revision].append(event)
        for revision in sorted(by_revision):
            self._apply(revision, by_revision[revision])
            self._revision = max(self._revision, revision)

    def _apply(self, revision: int, events: Sequence[rpc_pb2.Event]) -> None:
        """All changes of one revision, then look."""
        touched = set()
        for event in events:
            key = event.kv.key.decode()
            queue = key.split("/")[2].partition("-")[0]
            touched.add(queue)
            if event.type == DELETE:
                self._taken[queue].pop(key, None)
            else:
                charges = json.loads(event.kv.value).get("charges", [])
                self._taken[queue][key] = sum(charge.get("amounts", {}).get(RESOURCE, 0) for charge in charges)
        for queue in sorted(touched):
            taken = sum(self._taken[queue].values())
            self.most[queue] = max(self.most[queue], taken)
            if taken > self._nominal.get(queue, 0):
                self.found.append(
                    f"S6: queue {queue} takes {taken} GPUs of {self._nominal.get(queue, 0)} at {revision}"
                )
