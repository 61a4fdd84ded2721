"""Why a gang does not fit, and how near it came."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hanse.model.job import Slice
from hanse.model.reasons import Reason
from hanse.shape.ask import SetAsk, with_slices
from hanse.shape.capacity import Cap
from hanse.shape.lens import Refused
from hanse.shape.limits import HOST_ALIAS
from hanse.shape.ragged import most_ragged
from hanse.shape.seat import View, views
from hanse.shape.shape import Shape


@dataclass(frozen=True, slots=True)
class NoFit:
    """A refusal that explains itself.

    Attributes:
        constraint: what failed, in words that stay the same for the same kind of failure.
        wanted, found: in the unit that `constraint` names.
        detail: one line for people.
        nearness: 0..1, for sorting pools by how near they are.
    """

    reason: Reason
    constraint: str
    wanted: int
    found: int
    detail: str
    nearness: float


def unnamed(shape: Shape, s: SetAsk) -> bool:
    """Whether a set certainly does not fit, from sums and peaks alone."""
    seen = views(shape, s)
    if s.required:
        return all(v.cap.peak[v.depth + 1] < s.count for v in seen)
    return sum([v.cap.fit for v in seen]) < s.count


def refuse_among(look: Callable[[SetAsk], list[View]], s: SetAsk, *, alone: bool) -> NoFit:
    """What a set lacks, if free capacity is to blame (else see `never`).

    Args:
        look: what any set sees now.
        alone: nothing of the same gang was placed before it.
    """
    for layer in s.slices if not s.ragged else ():
        if s.count % layer.size:
            text = f"slices of {layer.size} pods"
            return NoFit(
                Reason.SHAPE, f"{text} divide the set", s.count, s.count // layer.size * layer.size,
                f"{s.count} pods do not divide into {text}", 0.2,
            )  # fmt: skip
    seen = look(s)
    found = _most(s, seen)
    unit = _unit(s, seen)
    where = f" in one {s.required}" if s.required else ""
    where += f" with one {' and one '.join(s.same)}" if s.same else ""
    where += f" with at most {s.spread.max_pods:,} of them in one {s.spread.level}" if s.spread else ""
    where += f" with the GPUs of each in one {s.devices.kind} group" if s.devices else ""
    beside = "" if alone else " beside the rest of the gang"
    if s.ragged:
        size, most = s.slices[0].size, _most_ragged(s, seen)
        rest = f"wanted {s.count:,}, {s.count % size} of them in the last slice"
        told = f"found {most:,} {unit} in slices of {size}{where}{beside}; {rest}"
        constraint = f"{_slice(s.slices[0], unit)}, the last smaller{where}"
        return _no(constraint, -(-s.count // size), min(most, s.count - 1) // size, told, alone=alone)
    if s.slices:
        layers = [(layer, _most(s, look(with_slices(s, s.slices[i:])))) for i, layer in enumerate(s.slices)]
        told = ", ".join(f"{n // x.size:,} of {s.count // x.size:,} {_slice(x, unit)}" for x, n in layers)
        size = s.slices[0].size
        constraint = f"{_slice(s.slices[0], unit)}{where}"
        return _no(constraint, s.count // size, found // size, f"found {told}{where}{beside}", alone=alone)
    free = max([v.cap.free for v in seen], default=0)
    told = f"{_although(s, free)}found {found:,} {unit}{where}{beside}; wanted {s.count:,}"
    return _no(f"{unit}{where}", s.count, found, told, alone=alone)


def refuse_lone(rows: Sequence[tuple[int, ...]], s: SetAsk, free: int) -> NoFit:
    """What a set of one pod lacks that no host has room for.

    Args:
        rows: pods per host by class and free GPUs.
        free: GPUs that are free on hosts of its flavor.
    """
    unit = _unit_of(s, max([max(row, default=0) for row in rows], default=0))
    where = f" in one {s.required}" if s.required else ""
    return _no(f"{unit}{where}", 1, 0, f"{_although(s, free)}found 0 {unit}{where}; wanted 1", alone=True)


def _although(s: SetAsk, free: int) -> str:
    return f"{free:,} GPUs are free, but " if s.gpus and free >= s.count * s.gpus else ""


def _most_ragged(s: SetAsk, seen: list[View]) -> int:
    """The most pods in slices, the last smaller as that of the set, that one required domain or one group holds."""
    found = [most_ragged(v.cap, v.lens.ragged, s.count, v.depth) for v in seen if v.lens.ragged is not None]
    return max(found, default=0)


def _no(constraint: str, wanted: int, found: int, detail: str, *, alone: bool) -> NoFit:
    near = 0.3 + 0.7 * min(1.0, found / wanted)
    return NoFit(Reason.SHAPE, constraint, wanted, found, detail, near if alone else near * 0.9)


def _most(s: SetAsk, seen: list[View]) -> int:
    """The most pods that one required domain, or everything, could hold."""
    if s.required:
        return max([v.cap.peak[v.depth + 1] for v in seen], default=0)
    return sum([v.cap.fit for v in seen])


def _slice(layer: Slice, unit: str) -> str:
    return f"slices of {layer.size} {unit} in one {layer.level}"


def _unit(s: SetAsk, seen: list[View]) -> str:
    """What is counted: whole hosts if no host can hold two pods."""
    return _unit_of(
        s,
        max([max(row, default=0) for v in seen for row in v.lens.rows] or [v.cap.peak[-1] for v in seen], default=0),
    )


def _unit_of(s: SetAsk, most: int) -> str:
    if not s.gpus:
        return "pods"
    if most == 1 and s.gpus > 1:
        return f"hosts with {s.gpus} free GPUs"
    return f"pods of {s.gpus} GPU{'' if s.gpus == 1 else 's'}"


def never(shape: Shape, s: SetAsk) -> NoFit | None:
    """Refusals that free capacity does not change; that the pool has no such hosts at all is said first."""
    rows = shape.table.rows(s)
    if isinstance(rows, Refused) and rows.reason is Reason.FLAVOR:
        return _no_rows(s, rows)
    spread = s.spread.level if s.spread else ""
    group = s.group.level if s.group else ""
    for level in (s.required, group, s.preferred, s.balanced, spread, *[x.level for x in s.slices]):
        if level and all(group.rungs.find(level) is None for group in shape.groups):
            known = sorted({x.alias for group in shape.groups for x in group.levels} | {HOST_ALIAS})
            return NoFit(
                Reason.LEVEL_UNKNOWN, f"level {level}", 1, 0,
                f"the pool has no level {level!r}; it has {', '.join(known)}", 0.05,
            )  # fmt: skip
    return _no_rows(s, rows) if isinstance(rows, Refused) else None


def _no_rows(s: SetAsk, refused: Refused) -> NoFit:
    near = {Reason.FLAVOR: 0.0, Reason.SELECTOR: 0.1, Reason.TAINT: 0.12, Reason.RESOURCES: 0.15}
    constraint = {
        Reason.FLAVOR: f"hosts of flavor {s.flavor}",
        Reason.SELECTOR: f"hosts with labels {', '.join(s.selector.keys)}",
        Reason.TAINT: "hosts whose taints are tolerated",
        Reason.RESOURCES: "hosts that offer what one pod asks for",
    }
    return NoFit(refused.reason, constraint[refused.reason], 1, 0, refused.detail, near[refused.reason])


def refuse_group(look: Callable[[SetAsk], list[View]], sets: Sequence[SetAsk]) -> NoFit:
    """What the sets of a group lack: a domain of its level that holds them; the best one, each set there alone."""
    group = sets[0].group
    assert group is not None
    seen = [{v.group: v for v in look(s)} for s in sets]
    most = 0
    for g in set(seen[0]).intersection(*seen):
        depth = seen[0][g].rungs.find(group.level)
        if depth is not None:
            most = max(most, _most_together([views[g].cap for views in seen], sets, depth))
    wanted = sum([s.count for s in sets])
    what = f"pods of {group.name} in one {group.level}"
    apart = ", each set by itself" if most == wanted else ""
    return _no(what, wanted, min(most, wanted - 1), f"found {most:,} {what}{apart}; wanted {wanted:,}", alone=True)


def _most_together(caps: list[Cap], sets: Sequence[SetAsk], depth: int) -> int:
    """The most pods that one domain so far below could hold, were each set there alone."""
    if depth < 0:
        return sum([min(cap.fit, s.count) for cap, s in zip(caps, sets, strict=True)])
    kids = range(len(caps[0].kids))
    return max([_most_together([cap.kids[i][0] for cap in caps], sets, depth - 1) for i in kids], default=0)
