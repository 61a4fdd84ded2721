"""Fills an etcd as a federation leaves it that runs and queues so many jobs, in large transactions."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import grpc
import msgspec

from bench.conflicts.fleet import FLAVORS, RACK, Kind, kinds, queues
from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.etcd.v3 import rpc_pb2_grpc as rpc
from hanse.model.ids import Attempt, Part, PoolName, ReplicaId, job_id
from hanse.model.lifecycle import Bind, JobState, Moved, Running, Started, State, encode_state, transition
from hanse.model.queue import Charge, Queue
from hanse.scheduler.core.quota import charges_for
from hanse.store import keys
from hanse.store.schema import (
    Amounts,
    BindingValue,
    BoundSet,
    ChoiceValue,
    Desired,
    FlavorValue,
    GrantValue,
    LevelUseValue,
    LevelValue,
    PoolConfigValue,
    Progress,
    QueueValue,
    SetRequestValue,
    SlotsValue,
    SpecEnvelope,
    StandingValue,
    encode,
    encode_spec,
)
from hanse.wire.job import spec_to_wire

FEDERATION: Final = "hanse"
BEGUN_MS: Final = 1_700_000_000_000
IN_FLIGHT: Final = 4
TRIES_MAX: Final = 10
JOBS_PER_REQUEST: Final = 1_000
MESSAGE_BYTES_MAX: Final = 64 * 2**20

Pair = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Content:
    """What etcd is filled with; half of the jobs are bound, the others wait."""

    jobs: int
    queues: int
    pools: int

    @property
    def waiting(self) -> int:
        """Jobs that are not bound."""
        return self.jobs - self.jobs // 2


async def fill(endpoint: str, content: Content, ops_max: int) -> None:
    """Write everything."""
    options = [("grpc.max_send_message_length", MESSAGE_BYTES_MAX)]
    async with grpc.aio.insecure_channel(endpoint, options=options) as channel:
        stub: rpc.KVAsyncStub = rpc.KVStub(channel)
        under_way: set[asyncio.Task[None]] = set()
        pairs = _pairs(content)
        while batch := list(islice(pairs, ops_max)):
            if len(under_way) == IN_FLIGHT:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            under_way.add(asyncio.create_task(_write(stub, batch)))
        await asyncio.gather(*under_way)


async def _write(stub: "rpc.KVAsyncStub", batch: Sequence[Pair]) -> None:
    request = pb.TxnRequest()
    for key, value in batch:
        put = request.success.add().request_put
        put.key, put.value = key.encode(), value
    for _ in range(TRIES_MAX):
        try:
            await stub.Txn(request)
            return
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
    raise RuntimeError(f"etcd takes {len(batch)} keys at a time too slowly, {TRIES_MAX} times in a row")


# ---- what there is -------------------------------------------------------------------------------------------


def _pairs(content: Content) -> Iterator[Pair]:
    every = queues(content.queues)
    pools = [PoolName(f"p{n:03}") for n in range(content.pools)]
    yield from _settings(every, pools)
    makers = [_Maker(queue, pools) for queue in every]
    for number in range(content.jobs):
        pair, second = divmod(number, 2)
        round_, queue = divmod(pair, len(makers))
        yield from makers[queue].job(2 * round_ + second, bound=not second)


def _settings(every: Sequence[Queue], pools: Sequence[PoolName]) -> Iterator[Pair]:
    yield keys.INCARNATION, b"1"
    yield keys.FEDERATION, FEDERATION.encode()
    yield keys.SLOTS, encode(SlotsValue(list(pools)))
    for flavor in FLAVORS:
        yield keys.flavor(flavor.name), encode(FlavorValue.of(flavor))
    for slot, pool in enumerate(pools):
        yield keys.pool_config(pool), encode(PoolConfigValue(slot, levels=[LevelValue(RACK.key, RACK.alias)]))
        for flavor in FLAVORS:
            yield keys.head(pool, flavor.name), b"1"
    for queue in every:
        yield keys.queue(queue.name), encode(QueueValue.of(queue, created_ms=BEGUN_MS))
        yield keys.grant(f"queue.{queue.uid}"), encode(GrantValue(ReplicaId("gone"), "before", BEGUN_MS))


class _Maker:
    """The jobs of one queue."""

    def __init__(self, queue: Queue, pools: Sequence[PoolName]) -> None:
        self._queue = queue
        self._pools = pools
        self._kinds = kinds(queue)
        self._specs = [
            encode_spec(SpecEnvelope("somebody", "", "", spec_to_wire(kind.spec).SerializeToString()))
            for kind in self._kinds
        ]
        self._values = [_binding(kind) for kind in self._kinds]

    def job(self, number: int, *, bound: bool) -> Iterator[Pair]:
        """The keys of one job."""
        job = job_id(self._queue.uid, "somebody", f"{number // JOBS_PER_REQUEST}", number % JOBS_PER_REQUEST)
        at = number // 2 % len(self._kinds)
        slot = number // 2 % len(self._pools)
        yield keys.spec(job), self._specs[at]
        yield keys.state(job), encode_state(_state(self._kinds[at], number, slot if bound else -1))
        if bound:
            value = self._values[at]
            own = _of_job(value, number, self._pools[slot])
            yield keys.binding(self._pools[slot], job, Attempt(1), Part(0)), encode(own)


def _state(kind: Kind, number: int, slot: int) -> JobState:
    at_ms = BEGUN_MS + number
    state = JobState(State.PENDING, Attempt(0), 0, at_ms, at_ms, kind.number, write_id=_id(number))
    events = (Bind((slot,)), Started(Attempt(1), Part(0)), Running(Attempt(1), Part(0), 0)) if slot >= 0 else ()
    for event in events:
        moved = transition(state, event, now_ms=at_ms + 100)
        assert isinstance(moved, Moved)
        state = moved.state
    return replace(state, write_id=_id(number))


def _id(number: int) -> int:
    """A write's identity: as many digits as a drawn one has."""
    return number * 4_611_686_018_427_387 % 2**62 + 1


def _binding(kind: Kind) -> BindingValue:
    want = kind.request.sets[0]
    charges: tuple[Charge, ...] = charges_for(kind.request, want.flavors)
    return BindingValue(
        desired=int(Desired.START),
        sets=[BoundSet(0, want.count, 0, want.flavors[0])],
        request=[SetRequestValue.of(want)],
        charges=[Amounts(c.flavor, dict(c.amount.items())) for c in charges],
        progress=int(Progress.RUNNING),
        domains=[LevelUseValue("rack", 1, ["r07"])],
    )


def _of_job(value: BindingValue, number: int, pool: PoolName) -> BindingValue:
    """The binding of one job, as it is once its pods run."""
    at_ms = BEGUN_MS + number
    won = StandingValue(pool, (1, 1, 4, 8), 0, ("rack", "host"), [3, 3])
    return msgspec.structs.replace(
        value,
        bound_ms=at_ms,
        held_ms=at_ms + 10,
        started_ms=at_ms + 50,
        running_ms=at_ms + 100,
        write_id=_id(number),
        order=number % 40,
        choice=ChoiceValue(won, StandingValue("p001", (1, 1, 4, 9), 0, ("rack", "host"), [3, 4]), 25, 25),
    )
