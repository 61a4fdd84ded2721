"""What a pool is desired to run, from the store to the agent's stream.

The complete set of an attachment is read at a revision that is not older than the transaction which granted its
epoch (P6), never from a cache, and every later change comes from a watch that begins right after it. Specs travel
with the bindings that need them and are read from the store when they are sent; they are immutable.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple

from hanse.kit.clock import Clock
from hanse.kit.telemetry import TRACER, metrics
from hanse.model.desired import Binding, BoundSet, Desired, DesiredAction
from hanse.model.errors import InvalidArgument
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import FlavorName, PoolName
from hanse.scheduler.shell.loading import load_range
from hanse.scheduler.shell.specs import SpecReads
from hanse.scheduler.shell.traces import tell_sent
from hanse.store import keys, schema
from hanse.store.contract import EventKind, KeyValue, Store, WatchBatch, prefix_end
from hanse.wire.link import DESIRED_BINDINGS_MAX, DESIRED_SPEC_BYTES_MAX
from hanse.wire.specs import spec_from_bytes

_ACTIONS: Final = {
    schema.Desired.HOLD: DesiredAction.HOLD,
    schema.Desired.START: DesiredAction.START,
    schema.Desired.STOP: DesiredAction.STOP,
}


class _Read(NamedTuple):
    """A binding as it was read."""

    key: keys.BindingKey
    kv: KeyValue
    value: schema.BindingValue


class DesiredSource:
    """The desired set of one pool for one attachment.

    Args:
        recovering: whether, as far as is known, a pool has not come back since the store was restored (P15).

    Attributes:
        revision: up to which the agent has been told everything.
    """

    def __init__(
        self,
        store: Store,
        pool: PoolName,
        epoch: Epoch,
        clock: Clock,
        recovering: Callable[[], bool],
        specs: SpecReads,
    ) -> None:
        self._store = store
        self._specs = specs
        self._pool = pool
        self._epoch = epoch
        self._clock = clock
        self._recovering = recovering
        self._told: dict[str, int] = {}  # what each binding asked for when the agent was told last
        self.revision = 0

    async def complete(self) -> AsyncIterator[Desired]:
        """The complete set, in bounded messages of one revision.

        Raises:
            StaleRead: the store answered from before the attach; attach anew.
        """
        prefix = keys.bindings(self._pool)
        items, revision = await load_range(self._store, prefix, prefix_end(prefix))
        if revision < self._epoch.revision:
            raise StaleRead(f"read at revision {revision}, attached at {self._epoch.revision}")
        self.revision = revision
        chunks = await self._chunks(self._news(items))
        for number, chunk in enumerate(chunks):
            yield Desired(
                epoch=self._epoch,
                revision=revision,
                complete_begin=number == 0,
                complete_end=number == len(chunks) - 1,
                bindings=tuple(chunk),
                recovering=self._recovering(),
            )

    async def changes(self, batch: WatchBatch) -> AsyncIterator[Desired]:
        """What a batch of the watch means for the agent, in bounded messages; the last one carries its revision.

        What the link itself wrote into a binding (progress, times) means nothing: no message, no spec read.
        """
        last = {event.kv.key: event for event in batch.events}
        puts = [event.kv for event in last.values() if event.kind is EventKind.PUT]
        removed = tuple(_gang(key) for key in sorted(last) if last[key].kind is EventKind.DELETE)
        before = self.revision
        self.revision = batch.revision
        for key, event in last.items():
            if event.kind is EventKind.DELETE:
                self._told.pop(key, None)
        news = self._news(puts)
        if not news and not removed:
            return
        chunks = await self._chunks(news)
        for number, chunk in enumerate(chunks):
            final = number == len(chunks) - 1
            yield Desired(
                epoch=self._epoch,
                revision=batch.revision if final else before,
                bindings=tuple(chunk),
                removed=removed if final else (),
                recovering=self._recovering(),
            )

    def _news(self, items: Sequence[KeyValue]) -> list[_Read]:
        """The bindings that ask for something else than what the agent was told."""
        decoded = [_Read(keys.parse_binding(kv.key), kv, schema.decode_binding(kv.value)) for kv in items]
        news = [read for read in decoded if self._told.get(read.kv.key) != read.value.desired]
        self._told.update((read.kv.key, read.value.desired) for read in news)
        return news

    async def _chunks(self, items: Sequence[_Read]) -> list[list[Binding]]:
        """Bindings in the order of their creation, cut to what one message takes; one empty chunk for nothing."""
        ordered = sorted(items, key=lambda read: (read.kv.create_revision, read.value.order, read.kv.key))
        chunks: list[list[Binding]] = [[]]
        size = 0
        for start in range(0, len(ordered), DESIRED_BINDINGS_MAX):
            for binding in await self._bindings(ordered[start : start + DESIRED_BINDINGS_MAX]):
                full = len(chunks[-1]) >= DESIRED_BINDINGS_MAX or size + len(binding.spec) > DESIRED_SPEC_BYTES_MAX
                if chunks[-1] and full:
                    chunks.append([])
                    size = 0
                chunks[-1].append(binding)
                size += len(binding.spec)
        return chunks

    async def _bindings(self, items: Sequence[_Read]) -> list[Binding]:
        needed = [read.key.job for read in items if read.value.desired != schema.Desired.STOP]
        specs = await self._specs.read(needed) if needed else {}
        bindings = [_binding(read.key, read.kv, read.value, specs.get(read.key.job)) for read in items]
        metrics.DESIRED_SENT.add(len(bindings))
        for read, binding in zip(items, bindings, strict=True) if TRACER.on else ():
            if _is_new(read.kv, read.value):
                tell_sent(self._pool, binding, bound_ms=read.value.bound_ms, now_ms=self._clock.now_ms())
        return bindings


class StaleRead(Exception):
    """A read came from before the attach (P6)."""


def _is_new(kv: KeyValue, value: schema.BindingValue) -> bool:
    """Whether the agent cannot know the binding yet: it has said nothing of it, nor was anything else desired."""
    return kv.create_revision == kv.mod_revision and value.progress == schema.Progress.NONE


def _gang(text: str) -> GangKey:
    key = keys.parse_binding(text)
    return GangKey(key.job, key.attempt, key.part)


def _binding(
    key: keys.BindingKey, kv: KeyValue, value: schema.BindingValue, envelope: schema.SpecEnvelope | None
) -> Binding:
    action = _ACTIONS.get(schema.Desired(value.desired), DesiredAction.STOP)
    spec = envelope.spec if envelope is not None and action is not DesiredAction.STOP else b""
    names = _set_names(spec)
    return Binding(
        key=GangKey(key.job, key.attempt, key.part),
        create_revision=kv.create_revision,
        revision=kv.mod_revision,
        action=action,
        sets=tuple(
            BoundSet(names[s.index] if s.index < len(names) else "", s.count, s.first_rank, FlavorName(s.flavor))
            for s in value.sets
        ),
        spec=spec,
        trace=value.trace or (envelope.trace if envelope is not None else ""),
        parts=value.parts,
        order=value.order,
    )


def _set_names(spec: bytes) -> list[str]:
    """Names of the pod sets, in order; none without a spec."""
    if not spec:
        return []
    try:
        return [pod_set.name for pod_set in spec_from_bytes(spec).pod_sets]
    except InvalidArgument:
        return []  # the agent refuses it, and says why
