"""What must come true once faults have stopped: the federation settles, and says why what waits does wait.

* L1  a job that would fit somewhere is bound; one that waits carries a reason, and the reason is true now;
* L2  in every cluster exactly what is bound exists, and every started gang has all of its pods (S2 at rest);
* L2  whoever was named to admit for a root does, if it lives;
* L4  no job is on its way anywhere: nothing is STOPPING, no binding of a job that has ended is left;
* S9  each agent's figures are those of its cluster: capacity = free + held + bound + releasing + unusable.

Whether a job would fit is worked out here on nodes, by the most obvious greedy. It errs on one side only: what it
places, fits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hanse.model.ids import FlavorName, JobId, ReplicaId, queue_of
from hanse.model.job import JobSpec, PodSet
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.model.resources import PODS
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import GangId
from hanse.store import keys
from hanse.store.schema import Desired, HolderValue, decode
from tests.sim import rooms
from tests.sim.fleet import FLAVORS, GPU_LABEL, MODELS
from tests.sim.view import StoreView

MOVING = frozenset({State.BOUND, State.PLACED, State.STARTING, State.RUNNING, State.STOPPING})
PASSING = frozenset({Reason.UNSPECIFIED, Reason.WAITING, Reason.CONFLICT, Reason.BACKOFF, Reason.REFUSED})
"""Reasons that say "soon": none of them may last."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Why the federation has not settled; becomes a violation if it lasts."""

    invariant: str
    text: str
    about: tuple[str, ...]


def unsettled(view: StoreView, engines: Iterable[Engine], specs: dict[JobId, JobSpec]) -> Unsettled | None:
    """The first thing that is still on its way, None at rest."""
    every = tuple(engines)
    return _jobs(view) or _holders(view) or _clusters(view, every) or _pending(view, every, specs)


def _jobs(view: StoreView) -> Unsettled | None:
    for job, state in view.states.items():
        if state.state in MOVING:
            return Unsettled("L4", f"{job} stays {state.state.name}, attempt {state.attempt}", (job,))
    for binding in view.bindings.values():
        return Unsettled("L4", f"the binding {binding.key.text} is left over", (binding.key.job, binding.key.pool))
    return None


def _holders(view: StoreView) -> Unsettled | None:
    for root in dict.fromkeys(view.root_of(queue) for queue in view.queues):
        named, grant = view.items.get(keys.holder(root)), view.grants.get(root)
        holder = decode(named.value, HolderValue).replica if named is not None else ""
        if keys.replica(ReplicaId(holder)) in view.items and (grant is None or grant.replica != holder):
            what = f"{root} was given to {holder}, and {grant.replica if grant else 'nobody'} holds it"
            return Unsettled("L2", what, (root,))
    return None


def _clusters(view: StoreView, engines: tuple[Engine, ...]) -> Unsettled | None:
    for engine in engines:
        pool = engine.spec.name
        for gang in engine.gangs:
            if not _bound(view, pool, gang):
                return Unsettled("L2", f"{pool} still has {gang.job}/{gang.attempt}.{gang.part}", (gang.job, pool))
    return None


def _bound(view: StoreView, pool: str, gang: GangId) -> bool:
    return f"{keys.BINDINGS}{pool}/{gang.job}/{gang.attempt:08d}.{gang.part}" in view.bindings


def running_sets_differ(view: StoreView, engines: Iterable[Engine]) -> Unsettled | None:
    """L2 in the middle of work: what a cluster runs is what is bound there, whole."""
    for engine in engines:
        for gang_id, gang in engine.gangs.items():
            if not _bound(view, engine.spec.name, gang_id):
                return Unsettled("L2", f"{engine.spec.name} has {gang_id}, which is not bound", (gang_id.job,))
            if gang.started_ms and not gang.stopped and gang.created < len(gang.nodes):
                what = f"{gang.created} of {len(gang.nodes)} pods of {gang_id} were created"
                return Unsettled("S2", what, (gang_id.job, engine.spec.name))
    names = {engine.spec.name: engine for engine in engines}
    for binding in view.bindings.values():
        at = binding.key
        if binding.value.desired == Desired.START and GangId(at.job, at.attempt, at.part) not in names[at.pool].gangs:
            return Unsettled("L2", f"{at.text} is not in its cluster", (at.job, at.pool))
    return None


# ---- L1 -----------------------------------------------------------------------------------------------------


def _pending(view: StoreView, engines: tuple[Engine, ...], specs: dict[JobId, JobSpec]) -> Unsettled | None:
    for job, state in view.states.items():
        if state.state is not State.PENDING:
            continue
        queue = view.queues.get(queue_of(job))
        if queue is None:
            continue
        if queue[1].held:
            if state.reason is not (Reason.JOB_HELD if state.held else Reason.QUEUE_HELD) and not (
                state.held and state.reason is Reason.QUEUE_HELD
            ):
                return Unsettled("L1", f"{job} waits for {state.reason.name}, its queue is on hold", (job,))
            continue
        if state.held:
            if state.reason is not Reason.JOB_HELD:
                return Unsettled("L1", f"{job} waits for {state.reason.name}, it is on hold", (job,))
            continue
        where = fits_somewhere(view, engines, job, specs[job])
        if where:
            return Unsettled("L1", f"{job} waits for {state.reason.name} and would fit into {where}", (job,))
        if state.reason in PASSING:
            return Unsettled("L1", f"{job} waits with the reason {state.reason.name}, which says nothing", (job,))
    return None


def fits_somewhere(view: StoreView, engines: tuple[Engine, ...], job: JobId, spec: JobSpec) -> str:
    """A pool and flavor with room and quota for the whole job, "" if none is found."""
    for flavor in FLAVORS:
        if any(s.flavors and flavor.name not in s.flavors for s in spec.pod_sets):
            continue
        if not _quota_allows(view, job, spec, flavor.name):
            continue
        for engine in engines:
            config = next((c for name, c in view.configs.items() if name == engine.spec.name), None)
            if config is None or config.cordoned:
                continue
            if _fits(engine, spec, flavor.name):
                return f"{engine.spec.name} as {flavor.name}"
    return ""


def _quota_allows(view: StoreView, job: JobId, spec: JobSpec, flavor: FlavorName) -> bool:
    uid = queue_of(job)
    nominal = next((q.amounts for q in view.queues[uid][1].quotas if q.flavor == flavor), None)
    if nominal is None:
        return False
    wanted: dict[str, int] = {}
    for pod_set in spec.pod_sets:
        for name, amount in pod_set.resources.items():
            wanted[name] = wanted.get(name, 0) + amount * pod_set.count
    used = view.used.get(uid, {})
    return all(used.get((flavor, name), 0) + amount <= nominal.get(name, 2**62) for name, amount in wanted.items())


def _fits(engine: Engine, spec: JobSpec, flavor: FlavorName) -> bool:
    model = MODELS[[f.name for f in FLAVORS].index(flavor)]
    held = rooms.held(engine)
    free: dict[int, rooms.Amounts] = {}
    for node, labels in enumerate(engine.nodes.labels):
        if rooms.usable(engine, node) and labels.get(GPU_LABEL) == model:
            taken = rooms.added(held.get(node, {}), rooms.foreign(engine, node))
            offered = rooms.offered(engine, node)
            free[node] = {name: amount - taken.get(name, 0) for name, amount in offered.items()}
    return all(_place(engine, free, pod_set) for pod_set in spec.pod_sets)


def _place(engine: Engine, free: dict[int, rooms.Amounts], pod_set: PodSet) -> bool:
    """Take room for every pod of a set out of `free`, in the first domain that has it; False if none has."""
    request = {PODS: 1, **pod_set.resources}
    for domain in _domains(engine, free, pod_set):
        room = {n: max(0, min(free[n].get(name, 0) // need for name, need in request.items())) for n in domain}
        racks = _whole_slices(engine, room, pod_set)
        if sum(pods for _, pods in racks) >= pod_set.count:
            _take(free, room, request, racks, pod_set.count)
            return True
    return False


def _take(
    free: dict[int, rooms.Amounts],
    room: dict[int, int],
    request: rooms.Amounts,
    racks: list[tuple[list[int], int]],
    count: int,
) -> None:
    """Take so many pods, of no rack more than it may have."""
    for members, most in racks:
        for node in members:
            taken = min(room[node], most, count)
            most, count = most - taken, count - taken
            for name, need in request.items():
                free[node][name] -= taken * need


def _domains(engine: Engine, free: dict[int, rooms.Amounts], pod_set: PodSet) -> list[list[int]]:
    if pod_set.topology.required != "rack":
        return [list(free)]
    return list(_by_rack(engine, free).values())


def _by_rack(engine: Engine, nodes: Iterable[int]) -> dict[str, list[int]]:
    racks: dict[str, list[int]] = {}
    for node in nodes:
        racks.setdefault(engine.nodes.paths[node][0], []).append(node)
    return racks


def _whole_slices(engine: Engine, room: dict[int, int], pod_set: PodSet) -> list[tuple[list[int], int]]:
    """Nodes of each rack and the pods that fit there: only whole slices where the set has slices, and no more than it
    allows in one rack.

    Of a gang whose last slice may be smaller this is less than fits: then nothing is said.
    """
    topology = pod_set.topology
    size = next((layer.size for layer in topology.slices if not layer.preferred), 1)
    most = topology.spread.max_pods if topology.spread else pod_set.count
    racks = _by_rack(engine, room).values()
    return [(members, min(most, sum(room[node] for node in members)) // size * size) for members in racks]
