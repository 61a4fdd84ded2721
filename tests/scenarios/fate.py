"""Time, and what happens to clusters and processes without anybody asking for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.model.lifecycle import State
from hanse.model.resources import PODS
from hanse.simcluster.inputs import (
    AddedTaint,
    AddForeign,
    FailNodes,
    GangId,
    LoseRecord,
    MarkNodes,
    OperatorInput,
    RemoveForeign,
    RemovePods,
    RestoreNodes,
    pack,
)
from hanse.simcluster.nodes import Indexes
from tests.scenarios.setting import changed_weather, levels_of, needs_of, taint_of
from tests.scenarios.stage import Act, Stage, refusal
from tests.scenarios.words import Line, Misread, seconds
from tests.sim.loop import Life
from tests.sim.world import PoolSite, Process, ReplicaSite

LOOK_S: Final = 0.05
WITHIN_S: Final = 60.0
FOR_EVER_S: Final = 1e9


class TooLate(AssertionError):
    """What a story waits for did not come."""


# ---- time ---------------------------------------------------------------------------------------------------


async def advance(stage: Stage, line: Line) -> list[str]:
    await asyncio.sleep(seconds(line.word(0, "a span")))
    return []


async def wait(stage: Stage, line: Line) -> list[str]:
    """Until every job of a glob, or `least` of them, is in a state; fails after `within`."""
    pattern, wanted = line.word(0, "a job"), State[line.word(1, "a state")]
    least = line.integer("least", len(stage.named(pattern)))
    until_s = stage.world.loop.time() + line.seconds("within", WITHIN_S)
    while sum(state is not None and state.state is wanted for _, state in stage.states(pattern)) < least:
        if stage.world.loop.time() > until_s:
            found = {name: state.state.name if state else "unknown" for name, state in stage.states(pattern)}
            raise TooLate(f"line {line.number}: {pattern} is not {wanted.name} in time: {found}")
        await asyncio.sleep(LOOK_S)
    return []


async def wait_held(stage: Stage, line: Line) -> list[str]:
    """Until a cluster has the record of a job's gang, whoever knows of that already."""
    site, job = _site(stage, line), stage.job(line, 1)
    until_s = stage.world.loop.time() + WITHIN_S
    while not any(gang.job == job for gang in site.engine.gangs):
        if stage.world.loop.time() > until_s:
            raise TooLate(f"line {line.number}: {site.name} holds nothing of it in time")
        await asyncio.sleep(LOOK_S / 10)
    return []


async def weather(stage: Stage, line: Line) -> list[str]:
    stage.world.weather.swarm = changed_weather(stage.world.weather.swarm, line)
    return []


# ---- clusters -----------------------------------------------------------------------------------------------


def _site(stage: Stage, line: Line, at: int = 0) -> PoolSite:
    try:
        return stage.world.site(line.word(at, "a pool"))
    except KeyError as unknown:
        raise Misread(f"line {line.number}: no pool {unknown}") from None


def _nodes(stage: Stage, line: Line) -> tuple[PoolSite, Indexes]:
    """Nodes of `POOL PATH`; they are noted as changed, so that no checker blames an agent that does not know yet."""
    site = _site(stage, line)
    path = line.word(1, "a path")
    table = site.engine.nodes
    nodes = table.indexes(table.names) if path == "all" else site.cluster.nodes_below(path)
    for node in nodes.tolist():
        stage.world.cluster_checks.node_changed(site.name, node, stage.world.loop.time())
    return site, nodes


def _operate(site: PoolSite, change: OperatorInput) -> list[str]:
    try:
        site.cluster.operate(change)
    except HanseError as error:
        return [refusal(error)]
    return []


async def fail(stage: Stage, line: Line) -> list[str]:
    site, nodes = _nodes(stage, line)
    return _operate(site, FailNodes(pack(nodes), line.has("remove")))


async def restore(stage: Stage, line: Line) -> list[str]:
    site, nodes = _nodes(stage, line)
    return _operate(site, RestoreNodes(pack(nodes)))


async def mark(stage: Stage, line: Line) -> list[str]:
    """`cordoned=yes`, `ready=no`, `healthy=no`, `taint=…`, `untaint=KEY`, or what nodes offer."""
    site, nodes = _nodes(stage, line)
    flags = {name: line.named[name] == "yes" for name in ("cordoned", "ready", "healthy") if name in line.named}
    taints = (taint_of(text) for text in line.listed("taint"))
    amounts = dict(line.resources().items())
    if line.named.get("gpus") == "0":
        amounts["nvidia.com/gpu"] = 0
    change = MarkNodes(
        pack(nodes),
        add_taints=tuple(AddedTaint(taint.key, taint.value, int(taint.effect)) for taint in taints),
        remove_taint_keys=line.listed("untaint"),
        allocatable=amounts,
        **flags,
    )
    return _operate(site, change)


async def provide(stage: Stage, line: Line) -> list[str]:
    """Somebody creates in a cluster what it lacked."""
    engine = _site(stage, line).engine
    given = {str(need) for need in needs_of(replace(line, named={"given": line.word(1, "what")}), "given")}
    engine.spec = replace(engine.spec, lacks=tuple(lack for lack in engine.spec.lacks if lack not in given))
    return []


async def foreign(stage: Stage, line: Line) -> list[str]:
    site, nodes = _nodes(stage, line)
    resources = {name: amount for name, amount in line.resources().items() if name != PODS}
    life_ms = int(line.seconds("life", 0) * 1000)
    return _operate(site, AddForeign(line.named["name"], pack(nodes), resources, life_ms))


async def unforeign(stage: Stage, line: Line) -> list[str]:
    site = _site(stage, line)
    return _operate(site, RemoveForeign(line.word(1, "a name"), int(line.seconds("grace", 0) * 1000)))


def _gang(stage: Stage, line: Line) -> tuple[PoolSite, GangId]:
    site, job = _site(stage, line), stage.job(line, 1)
    return site, _newest(site, job)


def _newest(site: PoolSite, job: JobId) -> GangId:
    return max(gang for gang in site.engine.gangs if gang.job == job)


async def lose_pods(stage: Stage, line: Line) -> list[str]:
    """Somebody deletes pods of a job behind everybody's back: the first `pods`, or all."""
    site, gang = _gang(stage, line)
    pods = line.integer("pods", len(site.engine.gangs[gang].nodes))
    return _operate(site, RemovePods(gang, b"".join(number.to_bytes(4, "little") for number in range(pods))))


async def lose_record(stage: Stage, line: Line) -> list[str]:
    site, gang = _gang(stage, line)
    return _operate(site, LoseRecord(gang))


# ---- processes ----------------------------------------------------------------------------------------------


def _replica(stage: Stage, line: Line) -> ReplicaSite:
    name = line.word(1, "a replica")
    found = next((site for site in stage.world.replicas if site.name == name), None)
    if found is None:
        raise Misread(f"line {line.number}: no replica {name}")
    return found


async def kill(stage: Stage, line: Line) -> list[str]:
    world, span_s = stage.world, line.seconds("for", FOR_EVER_S)
    if line.words[0] == "replica":
        replica = _replica(stage, line)
        world.kill_replica(replica)
        _later(stage, span_s, lambda: world.ensure_replica(replica))
    else:
        site = _site(stage, line, 1)
        for agent in tuple(site.agents)[: 1 if line.has("oldest") else None]:
            world.kill(site, agent)
        _later(stage, span_s, lambda: world.ensure_agent(site))
    return []


async def start(stage: Stage, line: Line) -> list[str]:
    if line.words[0] == "replica":
        stage.world.ensure_replica(_replica(stage, line))
    else:
        stage.world.ensure_agent(_site(stage, line, 1))
    return []


async def relevel(stage: Stage, line: Line) -> list[str]:
    """The pool's agent starts anew with other levels."""
    site = _site(stage, line)
    stage.world.setting.levels[site.name] = levels_of(line.words[1:])
    for agent in tuple(site.agents):
        stage.world.kill(site, agent)
    stage.world.ensure_agent(site)
    return []


async def twin(stage: Stage, line: Line) -> list[str]:
    """Somebody starts a second agent for a cluster."""
    stage.world.start_agent(_site(stage, line))
    return []


async def pause(stage: Stage, line: Line) -> list[str]:
    process: Process | None
    if line.words[0] == "replica":
        process = _replica(stage, line).process
    else:
        process = next(iter(_site(stage, line, 1).agents), None)
    if process is None or process.actor.life is not Life.RUNNING:
        raise Misread(f"line {line.number}: nothing runs there")
    stage.world.pause(process, line.seconds("for", WITHIN_S))
    return []


# ---- ways ---------------------------------------------------------------------------------------------------


async def cut(stage: Stage, line: Line) -> list[str]:
    pool = _site(stage, line).name
    stage.world.cut(pool)
    _later(stage, line.seconds("for", FOR_EVER_S), lambda: stage.world.join(pool))
    return []


async def stall(stage: Stage, line: Line) -> list[str]:
    stage.world.stall(_site(stage, line).name, line.seconds("for", WITHIN_S))
    return []


async def join(stage: Stage, line: Line) -> list[str]:
    stage.world.join(_site(stage, line).name)
    return []


async def down(stage: Stage, line: Line) -> list[str]:
    what, span_s = line.word(0, "store or bus"), line.seconds("for", FOR_EVER_S)
    (stage.world.store_weather if what == "store" else stage.world.bus_weather).take_down(span_s)
    return []


async def cut_store(stage: Stage, line: Line) -> list[str]:
    stage.world.store_weather.cut(line.word(0, "a replica"), line.seconds("for", WITHIN_S))
    return []


async def lose_leases(stage: Stage, line: Line) -> list[str]:
    """The store loses every lease that somebody keeps alive."""
    for lease in stage.world.store.sessions:
        stage.world.end_lease(lease)
    return []


def _later(stage: Stage, span_s: float, undo: Callable[[], object]) -> None:
    if span_s < FOR_EVER_S:
        stage.world.loop.world_later(span_s, undo)


VERBS: Final[dict[str, Act]] = {
    "advance": advance,
    "wait": wait,
    "wait-held": wait_held,
    "weather": weather,
    "fail": fail,
    "restore": restore,
    "mark": mark,
    "provide": provide,
    "foreign": foreign,
    "unforeign": unforeign,
    "lose-pods": lose_pods,
    "lose-record": lose_record,
    "kill": kill,
    "start": start,
    "twin": twin,
    "relevel": relevel,
    "pause": pause,
    "cut": cut,
    "join": join,
    "stall": stall,
    "down": down,
    "cut-store": cut_store,
    "lose-leases": lose_leases,
}
