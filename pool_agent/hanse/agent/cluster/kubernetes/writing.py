"""The operations of a write: decided on the records, written to the ledgers, then carried out on the pods.

What is decided is in effect once the ledger has it; what it asks for is waited for as long as a write should take,
and goes on behind it after that.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from hanse.agent.cluster.kubernetes.chores import Wish
from hanse.agent.cluster.kubernetes.hands import NotYet
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.ops import Act, GangWrite, decide, key_of, rounds
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.starting import Starting
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.kubernetes.tending import Tending
from hanse.agent.cluster.port import (
    AcceptRevision,
    ClusterUnavailable,
    ClusterWrite,
    Done,
    Epoch,
    ForgetGang,
    GangKey,
    HoldGang,
    Rejected,
    StartPods,
    StopPods,
    Superseded,
    WriteResult,
)

log = logging.getLogger(__name__)

Position = tuple[int, GangWrite]


class Writing:
    """See the module; `mirror` gives the present one."""

    def __init__(
        self,
        ledgers: Ledgers,
        starting: Starting,
        tending: Tending,
        settings: KubernetesSettings,
        pool: str,
        mirror: Callable[[], Mirror],
    ) -> None:
        self._ledgers = ledgers
        self._starting = starting
        self._tending = tending
        self._settings = settings
        self._pool = pool
        self._mirror = mirror

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        """As in the port; the ledgers are owned under `epoch`."""
        results: list[WriteResult] = [Done()] * len(ops)
        for together in rounds(ops):
            first = ops[together[0]]
            if isinstance(first, AcceptRevision):
                await self._ledgers.accept(epoch, first.revision)
                continue
            on_gangs = [(at, op) for at in together if not isinstance(op := ops[at], AcceptRevision)]
            await self._round(epoch, on_gangs, results)
        return tuple(results)

    async def _round(self, epoch: Epoch, ops: Sequence[Position], results: list[WriteResult]) -> None:
        await self._stop_starting(ops)
        namespaces = {key_of(op): self._namespace_of(op) for _, op in ops}
        met = {key_of(op): self._has_service(key_of(op)) for _, op in ops}
        roots = {key: stored.roots for key in met if (stored := self._ledgers.get(key)) is not None}
        changed: dict[GangKey, Stored | None] = {}
        acts: dict[GangKey, Act] = {}
        for at, op in ops:
            key = key_of(op)
            before = changed[key] if key in changed else self._ledgers.get(key)
            decision = decide(op, before, self._mirror().pods(key), namespaces[key])
            results[at] = decision.result
            if decision.stored != before:
                changed[key] = decision.stored
            if decision.act is not Act.NOTHING:
                acts[key] = decision.act
        refused = await self._write_down(epoch, changed)
        for at, op in ops:
            if key_of(op) in refused:
                acts.pop(key_of(op), None)
                results[at] = Rejected(refused[key_of(op)])
        for _, op in ops:
            if (key := key_of(op)) in acts and self._ledgers.get(key) is None:
                self._wish(op, namespaces[key] if met[key] else "", roots.get(key, ()))
        await self._carry_out(epoch, acts, ops, results)

    def _wish(self, op: GangWrite, namespace: str, roots: tuple[Root, ...]) -> None:
        match op:
            case StopPods():
                self._tending.wish(op.key, Wish(grace_s=op.grace_s))
            case ForgetGang():
                self._tending.wish(op.key, Wish(namespace, forget=True, roots=roots))
            case HoldGang() | StartPods():
                return

    async def _stop_starting(self, ops: Iterable[Position]) -> None:
        """What else is decided about a gang than to start it must not meet a start on its way."""
        for _, op in ops:
            if not isinstance(op, StartPods):
                await self._starting.drop(key_of(op))

    async def _write_down(self, epoch: Epoch, changed: dict[GangKey, Stored | None]) -> dict[GangKey, str]:
        """Those that the cluster refuses. Without anything to write, we look whether we still might."""
        if not changed:
            await self._ledgers.verify(epoch)
            return {}
        refused = await self._ledgers.change(epoch, changed)
        for key in changed:
            self._mirror().touch(key)
        return refused

    async def _carry_out(
        self, epoch: Epoch, acts: dict[GangKey, Act], ops: Sequence[Position], results: list[WriteResult]
    ) -> None:
        """What the records now ask for, as far as it goes in the time of a write."""
        starts = {op.key: op for _, op in ops if isinstance(op, StartPods) and acts.get(op.key) is Act.START}
        for op in starts.values():
            self._begin(epoch, op)
        await self._tend_a_while([key for key, act in acts.items() if act is not Act.START])
        refused = await self._starting.wait(starts, self._settings.start_wait_s)
        for at, position in ops:
            if isinstance(position, StartPods) and position.key in refused:
                results[at] = Rejected(refused[position.key])
        if self._ledgers.epoch != epoch:
            raise Superseded("the ledgers were taken over while pods were created")

    def _begin(self, epoch: Epoch, op: StartPods) -> None:
        stored = self._ledgers.get(op.key)
        if stored is None or stored.launched:
            return
        federation = self._ledgers.claim.federation
        self._starting.begin(Start(op, stored, federation, self._pool, epoch, stored.namespace))
        self._mirror().touch(op.key)

    async def _tend_a_while(self, keys: Sequence[GangKey]) -> None:
        if not keys:
            return
        try:
            async with asyncio.timeout(self._settings.start_wait_s):
                await self._tending.tend(keys)
        except (TimeoutError, NotYet, ClusterUnavailable) as error:
            log.info("write_goes_on", extra={"pool": self._pool, "cause": str(error)})
            self._tending.woken.set()

    def _has_service(self, key: GangKey) -> bool:
        """Whether a gang may have a Service. One that was never started has none, nor has a single pod."""
        stored = self._ledgers.get(key)
        return stored is None or bool(stored.roots) or (stored.record.started and stored.pods > 1)

    def _namespace_of(self, op: GangWrite) -> str:
        """Where the gang's pods are, or are to be."""
        stored = self._ledgers.get(key_of(op))
        present = stored.namespace if stored is not None else ""
        if present or not isinstance(op, StartPods):
            return present or self._settings.jobs_namespace
        return self._settings.namespace_for(op.namespace, op.queue)
