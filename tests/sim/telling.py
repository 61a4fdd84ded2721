"""Revisions and cluster operations as lines of a story."""

from hanse.model.job import JobSpec, Topology
from hanse.model.lifecycle import State
from hanse.simcluster.inputs import Claim, Forget, GangId, Hold, Input, Start, Stop
from hanse.store import keys
from hanse.store.contract import Event, EventKind, Txn
from hanse.store.schema import Desired, Progress
from tests.sim.view import StoreView

Told = tuple[str, tuple[str, ...]]
"""A line, and the jobs and pools that it speaks of."""


def told_event(view: StoreView, event: Event) -> Told:
    """One changed key, as the view has it now."""
    key = event.kv.key
    if event.kind is EventKind.DELETE:
        return _deleted(key)
    if key.startswith(keys.STATES):
        return _state(view, key)
    if key.startswith(keys.BINDINGS):
        binding = view.bindings[key]
        at = binding.key
        what = f"{Desired(binding.value.desired).name} {Progress(binding.value.progress).name}"
        return f"binding {at.job}/{at.attempt}.{at.part} in {at.pool}: {what}", (at.job, at.pool)
    if key.startswith((keys.POOLS, keys.ATTACHED)):
        return f"writes {key}", (keys.pool_of(key),)
    return f"writes {key}", ()


def told_txn(txn: Txn) -> str:
    """A transaction that has not happened."""
    return " ".join(op.key for op in txn.ops)


def _deleted(key: str) -> Told:
    if key.startswith(keys.BINDINGS):
        at = keys.parse_binding(key)
        return f"binding {at.job}/{at.attempt}.{at.part} in {at.pool}: gone", (at.job, at.pool)
    return f"deletes {key}", ()


def _state(view: StoreView, key: str) -> Told:
    job = keys.job_of(key)
    state = view.states[job]
    target = f" towards {state.target.name}" if state.target is not State.UNSPECIFIED else ""
    return f"{job} is {state.state.name}{target}, attempt {state.attempt}, {state.reason.name}", (job,)


def told_spec(spec: JobSpec) -> str:
    """What a job asks for, in short."""
    sets = ", ".join(f"{s.count} of {s.resources.gpus} GPUs {_topology(s.topology)}".strip() for s in spec.pod_sets)
    return f"{sets} in {spec.queue}, at most {spec.max_pools} pools"


def _topology(topology: Topology) -> str:
    slices = " ".join(f"in slices of {s.size} per {s.level}" for s in topology.slices)
    required = f"in one {topology.required}" if topology.required else ""
    return " ".join(text for text in (required, slices) if text)


def told_input(change: Input) -> Told:
    """One operation of a cluster."""
    match change:
        case Hold():
            nodes = " ".join(f"{held.name}:{len(held.nodes) // 4}" for held in change.sets)
            return f"holds {_gang(change.gang)} ({nodes}) of revision {change.revision}", (change.gang.job,)
        case Start():
            return f"starts {_gang(change.gang)}", (change.gang.job,)
        case Stop():
            return f"stops {_gang(change.gang)}", (change.gang.job,)
        case Forget():
            return f"forgets {_gang(change.gang)}", (change.gang.job,)
        case Claim():
            return f"is claimed by epoch {tuple(change.epoch)} at revision {change.accepted_revision}", ()
        case _:
            return f"sees {type(change).__name__}", ()


def _gang(gang: GangId) -> str:
    return f"{gang.job}/{gang.attempt}.{gang.part}"
