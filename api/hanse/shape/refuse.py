"""Why a gang does not fit, and how near it came."""

from dataclasses import dataclass

from hanse.model.reasons import Reason
from hanse.shape.lens import Refused, SetAsk
from hanse.shape.limits import HOST_ALIAS
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
        final: no other order of pod sets would change it.
    """

    reason: Reason
    constraint: str
    wanted: int
    found: int
    detail: str
    nearness: float
    final: bool = True


def unnamed(shape: Shape, s: SetAsk) -> bool:
    """Whether a set certainly does not fit, from sums and peaks alone."""
    seen = views(shape, s)
    if s.required:
        return all(v.cap.peak[v.depth + 1] < s.count for v in seen)
    return sum([v.cap.fit for v in seen]) < s.count


def refuse_among(seen: list[View], s: SetAsk, *, alone: bool) -> NoFit:
    """What a set lacks in these views, if free capacity is to blame (else see `never`).

    Args:
        alone: nothing of the same gang was placed before it.
    """
    for layer in s.slices:
        if s.count % layer.size:
            text = f"slices of {layer.size} pods"
            return NoFit(
                Reason.SHAPE, f"{text} divide the set", s.count, s.count // layer.size * layer.size,
                f"{s.count} pods do not divide into {text}", 0.2,
            )  # fmt: skip
    return _shape(s, seen, alone=alone)


def never(shape: Shape, s: SetAsk) -> NoFit | None:
    """Refusals that free capacity does not change."""
    for level in (s.required, s.preferred, *[x.level for x in s.slices]):
        if level and all(group.rungs.find(level) is None for group in shape.groups):
            known = sorted({x.alias for group in shape.groups for x in group.levels} | {HOST_ALIAS})
            return NoFit(
                Reason.LEVEL_UNKNOWN, f"level {level}", 1, 0,
                f"the pool has no level {level!r}; it has {', '.join(known)}", 0.05,
            )  # fmt: skip
    rows = shape.table.rows(s)
    if isinstance(rows, Refused):
        near = {Reason.FLAVOR: 0.0, Reason.SELECTOR: 0.1, Reason.TAINT: 0.12, Reason.RESOURCES: 0.15}
        return NoFit(rows.reason, f"hosts of flavor {s.flavor}", 1, 0, rows.detail, near[rows.reason])
    return None


def _shape(s: SetAsk, seen: list[View], *, alone: bool) -> NoFit:
    wanted, unit = s.count, _unit(s)
    best = max([v.cap.peak[v.depth + 1] for v in seen], default=0)
    found = best if s.required else sum([v.cap.fit for v in seen])
    size = s.slices[0].size if s.slices else 1
    where = f" in one {s.required}" if s.required else ""
    constraint = f"{unit}{where}"
    if s.slices:
        constraint = f"slices of {size} {unit} in one {s.slices[0].level} each{where}"
        wanted, found = wanted // size, found // size
    left = "" if alone else " beside the rest of the gang"
    return NoFit(
        Reason.SHAPE, constraint, wanted, found, f"{constraint}{left}: wanted {wanted}, found {found}",
        0.3 + 0.7 * min(1.0, found / wanted), final=alone,
    )  # fmt: skip


def _unit(s: SetAsk) -> str:
    gpus = s.gpus
    return f"pods of {gpus} GPUs" if gpus else "pods"
