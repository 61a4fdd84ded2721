"""Pools of a fleet file as specs of simulated clusters."""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from hanse.model.beside import Need, NeedKind
from hanse.model.devices import DeviceGroup
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted
from hanse.model.placement import Level
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources, parse_amount
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.spec import (
    NODES_MAX,
    Busy,
    ClusterSpec,
    GroupLevel,
    NodeGroup,
    Sizes,
    Timing,
    hosts_in,
    uniform,
)
from hanse.up.fleet_dialects import DIALECTS, GENERIC, GENERIC_LEVEL, REGION, ZONE
from hanse.up.fleet_file import BusyModel, GroupModel, LevelModel, PoolModel
from hanse.up.fleet_gpus import CPU_HOST, GPU_MODELS

_EFFECTS: Final = {
    "NoSchedule": Effect.NO_SCHEDULE,
    "PreferNoSchedule": Effect.PREFER_NO_SCHEDULE,
    "NoExecute": Effect.NO_EXECUTE,
}


def cluster_spec(pool: PoolModel, path: str) -> ClusterSpec:
    """The simulated cluster of a pool; `path` is the pool's in its file. Raises InvalidArgument."""
    groups = tuple(_group(pool, group, f"{path}.groups[{i}]") for i, group in enumerate(pool.groups))
    nodes = sum(hosts_in(group.sizes) for group in groups)
    if nodes > NODES_MAX:
        _refuse("TOO_LARGE", f"{nodes:,} nodes; a pool has at most {NODES_MAX:,}", path)
    if len({group.prefix for group in groups}) != len(groups):
        _refuse("DUPLICATE_NAME", "two groups give their nodes the same names; set name or node_prefix", path)
    timing = Timing(
        start=round(pool.start_s * 1000),
        start_jitter=round(pool.start_jitter_s * 1000),
        run=round(pool.run_s * 1000),
        stop=round(pool.stop_s * 1000),
    )
    lacks = tuple(str(Need(NeedKind[kind.upper()], name)) for kind, names in pool.lacks.items() for name in names)
    return ClusterSpec(pool.name, groups, timing, pool.seed, lacks)


def pool_levels(pool: PoolModel, path: str) -> tuple[Level, ...]:
    """The levels of all groups in one order, coarse to fine. Raises InvalidArgument if there is no such order."""
    merged: list[Level] = []
    for index, group in enumerate(pool.groups):
        at = f"{path}.groups[{index}].levels"
        own = [Level(_key(pool, level, f"{at}[{i}]"), level.name) for i, level in enumerate(group.levels)]
        if len({level.alias for level in own}) != len(own) or len({level.key for level in own}) != len(own):
            _refuse("DUPLICATE_NAME", "two levels have one name, or one label", at)
        _merge(merged, own, at)
    return tuple(merged)


def _merge(merged: list[Level], own: list[Level], path: str) -> None:
    """Put a group's levels into the pool's: each new one right before the next level that is there already."""
    for position, level in enumerate(own):
        same = next((other for other in merged if other.alias == level.alias or other.key == level.key), None)
        if same is not None and same != level:
            _refuse(
                "CONTRADICTION",
                f"{quoted(level.alias)} is {level.key}, and another group has {quoted(same.alias)} as {same.key}",
                path,
            )
        if same is None:
            later = [merged.index(other) for other in own[position + 1 :] if other in merged]
            merged.insert(min(later, default=len(merged)), level)
    order = [merged.index(level) for level in own]
    if order != sorted(order):
        _refuse("CONTRADICTION", "these levels are in another order in another group", path)


def _group(pool: PoolModel, group: GroupModel, path: str) -> NodeGroup:
    several = len(pool.groups) > 1
    gpus = _gpus(group)
    return NodeGroup(
        prefix=group.node_prefix or (f"{pool.name}-{group.name}" if several else pool.name),
        levels=tuple(
            GroupLevel(_key(pool, level, f"{path}.levels[{i}]"), level.name, level.prefix or level.name[0])
            for i, level in enumerate(group.levels)
        ),
        sizes=_sizes(group, path),
        allocatable=_allocatable(group, gpus, path),
        labels=_labels(pool, group, gpus),
        taints=tuple(Taint(t.key, t.value, _EFFECTS[t.effect]) for t in group.taints),
        busy=_busy(group.busy),
        devices=_devices(group, gpus, f"{path}.devices"),
    )


def _key(pool: PoolModel, level: LevelModel, path: str) -> str:
    known: Mapping[str, str] = DIALECTS[pool.dialect]
    key = level.key or known.get(level.name)
    if key is None and pool.dialect == GENERIC:
        key = GENERIC_LEVEL + level.name
    if key is None:
        _refuse(
            "LEVEL_UNKNOWN",
            f"dialect {pool.dialect} has no label for {quoted(level.name)}; set key, or use {', '.join(known)}",
            path,
        )
    return key


def _gpus(group: GroupModel) -> int:
    model = GPU_MODELS.get(group.gpu)
    if group.gpus is not None:
        return group.gpus
    return model.per_host if model else 0


def _allocatable(group: GroupModel, gpus: int, path: str) -> Resources:
    model = GPU_MODELS.get(group.gpu)
    cpu, memory = (model.host_cpu, model.host_memory) if model else CPU_HOST
    written = {CPU: cpu if group.cpu is None else group.cpu, MEMORY: memory if group.memory is None else group.memory}
    amounts = {name: _amount(name, text, f"{path}.{name}") for name, text in written.items()}
    amounts[model.resource if model else NVIDIA_GPU] = gpus
    for name, text in group.resources.items():
        if name in amounts or name == PODS:
            _refuse("CONTRADICTION", f"{name} has a field of its own; remove it here", f"{path}.resources.{name}")
        amounts[name] = _amount(name, text, f"{path}.resources.{name}")
    return Resources({**amounts, PODS: group.pods})


def _devices(group: GroupModel, gpus: int, path: str) -> tuple[DeviceGroup, ...]:
    told = sum(own.gpus for own in group.devices)
    if group.devices and told != gpus:
        _refuse("CONTRADICTION", f"groups of {told} GPUs in all, and a host has {gpus}; make the two equal", path)
    return tuple(DeviceGroup(own.numa, own.pcie, own.gpus, own.nics) for own in group.devices)


def _amount(name: str, text: str | int | float, path: str) -> int:
    try:
        amount = parse_amount(name, text)
    except ValueError as error:
        _refuse("QUANTITY", str(error), path)
    if amount < 0:
        _refuse("QUANTITY", f"{text} is negative", path)
    return amount


def _labels(pool: PoolModel, group: GroupModel, gpus: int) -> dict[str, str]:
    model = GPU_MODELS.get(group.gpu)
    found = model.labels(gpus, pool.dialect) if model and gpus else {}
    if pool.region:
        found[REGION] = pool.region
    if pool.zone:
        found[ZONE] = pool.zone
    return {**found, **group.labels}


def _busy(busy: BusyModel | None) -> Busy:
    if busy is None:
        return Busy()
    return Busy(busy.fraction, busy.pattern == "scattered", busy.whole_hosts, busy.seed)


# Trees


def _sizes(group: GroupModel, path: str) -> Sizes:
    counts = [level.count for level in group.levels]
    if group.sizes is None:
        given = [count for count in counts if count is not None]
        if len(given) != len(counts):
            at = f"{path}.levels[{counts.index(None)}].count"
            _refuse("MISSING", "is missing; give every level a count, or the group sizes", at)
        return _checked(given, path)
    if any(count is not None for count in counts):
        _refuse("CONTRADICTION", "the group has sizes and counts of levels; give one of them", f"{path}.sizes")
    ranks: list[list[int]] = [[] for _ in counts]
    _collect(group.sizes, 0, ranks, f"{path}.sizes")
    return tuple(tuple(rank) for rank in ranks)


def _checked(counts: list[int], path: str) -> Sizes:
    """Refuses before a tree of billions is built."""
    hosts = 1
    for count in counts:
        hosts *= count
    if hosts > NODES_MAX:
        _refuse("TOO_LARGE", f"{hosts:,} nodes; a pool has at most {NODES_MAX:,}", f"{path}.levels")
    return uniform(tuple(counts))


def _collect(sizes: Any, depth: int, ranks: list[list[int]], path: str) -> None:
    """Note how many children a domain has, and go down."""
    inner = depth < len(ranks) - 1
    if inner and not (isinstance(sizes, list) and sizes):
        _refuse("INVALID", f"needs a list here: {len(ranks)} levels are {len(ranks) - 1} nestings of lists", path)
    if inner:
        ranks[depth].append(len(sizes))
        for index, below in enumerate(sizes):
            _collect(below, depth + 1, ranks, f"{path}[{index}]")
        return
    if isinstance(sizes, bool) or not isinstance(sizes, int) or not 1 <= sizes <= NODES_MAX:
        _refuse("INVALID", f"needs a number of hosts here, 1 to {NODES_MAX:,}", path)
    ranks[depth].append(sizes)


def _refuse(reason: str, message: str, path: str) -> NoReturn:
    raise InvalidArgument(message, reason=reason, path=path)
