"""Operators' objects as native documents (`hanse/v1`): what `hanse import FILE -o native` prints.

Reading what is written here gives the same objects again. Fields that have their default are left out.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hanse.cli.native_form import amounts_form, requirement_form
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, QueueLimits

if TYPE_CHECKING:
    from hanse.manifests import ImportedLevels, ResourceSpec


def object_documents(objects: "Iterable[ResourceSpec]") -> list[dict[str, object]]:
    """One document for each object."""
    return [_document(one) for one in objects]


def level_settings(levels: "ImportedLevels") -> list[dict[str, object]]:
    """`levels` of a pool, as an agent's settings have them."""
    return [{"key": one.key, **_given(alias=one.alias)} for one in levels.levels]


def _document(one: "ResourceSpec") -> dict[str, object]:
    match one:
        case Flavor():
            match = [requirement_form(requirement) for requirement in one.requirements]
            return _head("Flavor", one.name, order=one.order, match=match, description=one.description)
        case PriorityClass():
            rest = _given(default=one.default, description=one.description)
            return {**_head("PriorityClass", one.name), "value": one.value, **rest}
        case Cohort():
            return _head("Cohort", one.name, parent=one.parent, quotas=_quotas(one.quotas))
        case _:
            return _head(
                "Queue",
                one.name,
                cohort=one.cohort,
                quotas=_quotas(one.quotas),
                held=one.held,
                limits=_limits(one.limits),
                labels=dict(one.labels),
                aliases=list(one.aliases),
            )


def _head(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": "hanse/v1", "kind": kind, "name": name, **_given(**fields)}


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


def _quotas(quotas: Iterable[FlavorQuota]) -> list[dict[str, object]]:
    return [{"flavor": one.flavor, "nominal": amounts_form(one.nominal)} for one in quotas]


def _limits(limits: QueueLimits) -> dict[str, object]:
    return _given(pending_jobs_max=limits.pending_jobs_max, running_jobs_max=limits.running_jobs_max)
