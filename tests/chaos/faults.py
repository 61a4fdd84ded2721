"""What goes wrong: several faults at a time, each drawn, begun, and mended after a while.

A fault takes what it strikes for itself, so that no two of them start and kill the same process at once. Everything
else may coincide: a replica cut off from the store while the leader of etcd is killed and an agent's clock jumps.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from hanse.client import AsyncClient
from hanse.model.errors import HanseError, NotFound
from hanse.sim.v1 import sim_pb2, sim_pb2_grpc
from tests.chaos.site import Site
from tests.services.process import ServerDied, ServerProcess
from tests.services.proxy import Relay

AT_ONCE_MAX: Final = 3
PAUSE_S: Final = (0.3, 4.0)
DOWN_S: Final = (0.0, 6.0)
SHORT_S: Final = (0.1, 3.0)
LONG_S: Final = (3.0, 25.0)
CLOCK_STEPS_S: Final = (2, 40, 3_600)
FILL_CHUNK_BYTES: Final = 1 << 20
CALL_DEADLINE_S: Final = 5.0
RACKS: Final = 4
HOSTS: Final = 8
"""Of every pool, see `workload.POOL`."""


@dataclass(frozen=True)
class Fault:
    """One fault as it happens.

    Attributes:
        kind: as it is counted.
        on: what it strikes; nothing else strikes that meanwhile.
        happen: begins, waits, mends.
    """

    kind: str
    on: str
    happen: Callable[[], Awaitable[None]]


class Faults:
    """Strikes until it is cancelled; `mend` afterwards puts everything right."""

    def __init__(self, site: Site, queues: Sequence[str], rng: random.Random, tell: Callable[[str], None]) -> None:
        self._site = site
        self._queues = queues
        self._rng = rng
        self._tell = tell
        self._struck: set[str] = set()
        self.count: Counter[str] = Counter()
        self.closed: set[str] = set()  # pools that may be shut still, or gone

    async def rage(self) -> None:
        """Faults one after the other, some of them at the same time."""
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                fault = self._draw()
                if fault is not None and len(running) < AT_ONCE_MAX:
                    running.add(asyncio.create_task(self._strike(fault), name=fault.kind))
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
                for done in [task for task in running if task.done()]:
                    running.discard(done)
                    done.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def mend(self) -> None:
        """Everything runs, all relays pass, all disks have room, all clocks are right, all nodes are back."""
        for relay in self._site.relays.values():
            relay.heal()
        for folder in self._site.disks.values():
            (folder / "filler").unlink(missing_ok=True)
        for file in self._site.clocks.values():
            _set(file, 0)
        for part in self._site.all:
            if part.running:
                part.thaw()
        await self._site.start()
        for part in self._site.all:
            await part.wait_ready_async()
        for pool in sorted(self.closed):
            await self._insist(0, lambda client, pool=pool: _taken_back(client, pool))  # type: ignore[misc]
        for queue in self._queues:
            await self._insist(0, lambda client, queue=queue: client.give_queue(queue, ""))  # type: ignore[misc]
        for n, pool in enumerate(self._site.pools):
            for rack in range(RACKS):
                await self._restored(n, pool, f"r{rack}")

    def _draw(self) -> Fault | None:
        often = [self._process, self._process, self._process, self._cut, self._cut]
        draws = [*often, self._noise, self._node, self._operator, self._gift]
        if self._site.disks:
            draws.append(self._disk)
        if self._site.clocks:
            draws.append(self._clock)
        fault = self._rng.choice(draws)()
        return None if fault.on in self._struck else fault

    async def _strike(self, fault: Fault) -> None:
        self._struck.add(fault.on)
        self.count[fault.kind] += 1
        self._tell(f"{fault.kind} {fault.on}")
        try:
            await fault.happen()
        finally:
            self._struck.discard(fault.on)

    # ---- processes ------------------------------------------------------------------------------------------

    def _process(self) -> Fault:
        site, rng = self._site, self._rng
        kinds = [site.replicas, site.replicas, site.agents, site.sims, site.etcd.members, [site.broker.process]]
        part = rng.choice(rng.choice(kinds))
        how = rng.choice(("kill", "kill", "terminate", "freeze"))
        if how == "freeze":
            return Fault("freeze", part.name, lambda: self._freeze(part, rng.uniform(*rng.choice((SHORT_S, LONG_S)))))
        return Fault(how, part.name, lambda: self._gone(part, how, rng.uniform(*DOWN_S)))

    async def _freeze(self, part: ServerProcess, for_s: float) -> None:
        part.freeze()
        try:
            await asyncio.sleep(for_s)
        finally:
            part.thaw()

    async def _gone(self, part: ServerProcess, how: str, for_s: float) -> None:
        await asyncio.get_running_loop().run_in_executor(None, getattr(part, how))
        await asyncio.sleep(for_s)
        part.launch()
        if self._rng.random() < 0.2:  # while it starts, too
            await asyncio.sleep(self._rng.uniform(0.0, 1.5))
            part.kill()
            part.launch()
        await self._up(part)

    async def _up(self, part: ServerProcess) -> None:
        """Until it serves. A store that is away keeps a replica from it, and a full disk a member of the store."""
        while True:
            try:
                await part.wait_ready_async()
            except ServerDied:
                if not part.running:
                    part.launch()
            else:
                return

    # ---- the network ----------------------------------------------------------------------------------------

    def _cut(self) -> Fault:
        """One process and all of one kind that it talks to, one way or both."""
        whose = self._rng.choice(sorted({who for who, _ in self._site.relays}))
        mine = {whom: relay for (who, whom), relay in self._site.relays.items() if who == whose}
        group = self._rng.choice(sorted({whom.rstrip("0123456789") for whom in mine}))
        relays = [relay for whom, relay in mine.items() if whom.rstrip("0123456789") == group]
        if self._rng.random() < 0.3:
            relays = [self._rng.choice(relays)]
        there, back = self._rng.choice(((True, False), (False, True), (True, True)))
        arrow = "<->" if there and back else "-->" if there else "<--"
        for_s = self._rng.uniform(*self._rng.choice((SHORT_S, LONG_S)))
        on = f"{whose} {arrow} {relays[0].name if len(relays) == 1 else group}"
        return Fault("cut", on, lambda: self._held(relays, for_s, there=there, back=back))

    async def _held(self, relays: list[Relay], for_s: float, *, there: bool, back: bool) -> None:
        for relay in relays:
            relay.hold(there=there, back=back)
        try:
            await asyncio.sleep(for_s)
        finally:
            for relay in relays:
                relay.heal()
                if self._rng.random() < 0.5:
                    relay.reset()

    def _noise(self) -> Fault:
        """A relay that is slow for a while, or breaks its connections."""
        key = self._rng.choice(sorted(self._site.relays))
        relay = self._site.relays[key]
        if self._rng.random() < 0.5:
            return Fault("reset", relay.name, lambda: _at_once(relay.reset))
        return Fault("slow", relay.name, lambda: self._slow(relay, self._rng.uniform(*LONG_S)))

    async def _slow(self, relay: Relay, for_s: float) -> None:
        relay.slow(self._rng.uniform(0.02, 0.5))
        try:
            await asyncio.sleep(for_s)
        finally:
            relay.heal()

    # ---- disks and clocks -------------------------------------------------------------------------------------

    def _disk(self) -> Fault:
        name = self._rng.choice(sorted(self._site.disks))
        part = next(p for p in self._site.all if p.name in (name, f"etcd-{name}"))
        return Fault("disk full", part.name, lambda: self._full(self._site.disks[name], part))

    async def _full(self, folder: Path, part: ServerProcess) -> None:
        filler = folder / "filler"
        try:
            await asyncio.get_running_loop().run_in_executor(None, _fill, filler)
            await asyncio.sleep(self._rng.uniform(*LONG_S))
        finally:
            filler.unlink(missing_ok=True)
        if not part.running:  # etcd ends when its disk is full
            part.launch()
        await self._up(part)

    def _clock(self) -> Fault:
        name = self._rng.choice(sorted(self._site.clocks))
        step_s = self._rng.choice(CLOCK_STEPS_S) * self._rng.choice((-1, 1))
        return Fault("clock", f"{name} by {step_s:+} s", lambda: self._stepped(self._site.clocks[name], step_s))

    async def _stepped(self, file: Path, step_s: int) -> None:
        _set(file, step_s)
        await asyncio.sleep(self._rng.uniform(*LONG_S))
        _set(file, 0)

    # ---- operators ------------------------------------------------------------------------------------------

    def _operator(self) -> Fault:
        """A pool is cordoned, drained or told to leave, and opened again after a while."""
        pool = self._rng.choice(self._site.pools)
        deadline_s = self._rng.choice((0, 0, 5))
        orders: dict[str, Callable[[AsyncClient], Awaitable[object]]] = {
            "cordon": lambda client: client.cordon(pool),
            "drain": lambda client: client.drain(pool, deadline_s=deadline_s),
            "leave": lambda client: client.leave(pool, deadline_s=deadline_s),
        }
        kind = self._rng.choice(sorted(orders))
        replica = self._rng.randrange(len(self._site.addresses))
        return Fault(kind, pool, lambda: self._closed(replica, pool, orders[kind]))

    async def _closed(self, replica: int, pool: str, order: Callable[[AsyncClient], Awaitable[object]]) -> None:
        self.closed.add(pool)
        await self._insist(replica, order)
        await asyncio.sleep(self._rng.uniform(*LONG_S))
        await self._insist(replica, lambda client: _taken_back(client, pool))
        self.closed.discard(pool)

    def _gift(self) -> Fault:
        """A replica, alive or not, is named as the holder of a queue, and the name is taken back."""
        queue = self._rng.choice(list(self._queues))
        replica = self._rng.randrange(len(self._site.addresses))
        apart = self._rng.random() < 0.5
        return Fault("gift", queue, lambda: self._given(replica, queue, f"r{replica}", apart=apart))

    async def _given(self, replica: int, queue: str, holder: str, *, apart: bool) -> None:
        await self._insist(replica, lambda client: client.give_queue(queue, holder, apart=apart))
        await asyncio.sleep(self._rng.uniform(*LONG_S))
        await self._insist(replica, lambda client: client.give_queue(queue, ""))

    async def _insist(self, replica: int, order: Callable[[AsyncClient], Awaitable[object]]) -> None:
        """Until some replica has done it."""
        while True:
            async with self._site.client(replica) as client:
                try:
                    await order(client)
                except HanseError as error:
                    self._tell(f"operator not heard: {error}")
                    replica = (replica + 1) % len(self._site.addresses)
                    await asyncio.sleep(1.0)
                else:
                    return

    # ---- nodes ----------------------------------------------------------------------------------------------

    def _node(self) -> Fault:
        n = self._rng.randrange(len(self._site.pools))
        pool = self._site.pools[n]
        path = f"r{self._rng.randrange(RACKS)}/h{self._rng.randrange(HOSTS)}"
        return Fault("node", f"{pool}/{path}", lambda: self._node_down(n, pool, path))

    async def _node_down(self, n: int, pool: str, path: str) -> None:
        down = sim_pb2.FailRequest(pool=pool, path=path)
        await self._nodes(n, lambda stub: stub.Fail(down, timeout=CALL_DEADLINE_S))
        await asyncio.sleep(self._rng.uniform(*LONG_S))
        await self._restored(n, pool, path)

    async def _restored(self, n: int, pool: str, path: str) -> None:
        back = sim_pb2.RestoreRequest(pool=pool, path=path)
        await self._nodes(n, lambda stub: stub.Restore(back, timeout=CALL_DEADLINE_S))

    async def _nodes(self, n: int, call: "Callable[[sim_pb2_grpc.SimServiceAsyncStub], Awaitable[object]]") -> None:
        """Tell a cluster; one that is down is not told."""
        async with grpc.aio.insecure_channel(self._site.clusters[n]) as channel:
            stub: sim_pb2_grpc.SimServiceAsyncStub = sim_pb2_grpc.SimServiceStub(channel)
            try:
                await call(stub)
            except grpc.aio.AioRpcError as error:
                self._tell(f"node not told: {error.code().name}")


async def _taken_back(client: AsyncClient, pool: str) -> None:
    """Open again; one that has left may join again."""
    try:
        await client.uncordon(pool)
    except NotFound:
        await client.readmit(pool)


async def _at_once(act: Callable[[], None]) -> None:
    act()


def _set(clock: Path, step_s: int) -> None:
    clock.write_text(f"{step_s:+}")


def _fill(filler: Path) -> None:
    """To the last byte."""
    with filler.open("wb", buffering=0) as file:
        for size in (FILL_CHUNK_BYTES, 4_096):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
