"""Jobs of the model as native specs (`hanse/v1 Job`): what `hanse convert FILE -o native` prints.

Reading what is written here gives the same job again, but for the foreign document that it was imported from, which
is not carried over: a native spec is a document of its own. Fields that have their default are left out.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from hanse.cli.amounts import binary
from hanse.model.beside import Need
from hanse.model.job import (
    JobSpec,
    OnInfrastructure,
    OnPoolLost,
    PodSet,
    PodTemplate,
    RestartPolicy,
    Topology,
    Volume,
)
from hanse.model.resources import CPU, MEMORY
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Toleration

START_SKEW_DEFAULT_S: Final = 60
_OPERATORS: Final = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
    Operator.GT: "Gt",
    Operator.LT: "Lt",
    Operator.VERSION_AT_LEAST: "VersionAtLeast",
}
_EFFECTS: Final = {
    Effect.NO_SCHEDULE: "NoSchedule",
    Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    Effect.NO_EXECUTE: "NoExecute",
}


def native_documents(specs: Iterable[JobSpec]) -> list[dict[str, object]]:
    """One document for each job, then what travels with them, each once."""
    every = list(specs)
    beside = dict.fromkeys(companion.text for spec in every for companion in spec.companions)
    return [*(native_document(spec) for spec in every), *(json.loads(text) for text in beside)]


def native_document(spec: JobSpec) -> dict[str, object]:
    """The job as a mapping in the order in which people write it."""
    return {
        "apiVersion": "hanse/v1",
        "kind": "Job",
        "name": spec.name,
        **_given(
            queue=spec.queue,
            priority_class=spec.priority_class,
            labels=dict(spec.labels),
            duration=spec.duration_s,
            restart=_restart(spec.restart),
            max_pools=spec.max_pools if spec.max_pools != 1 else 0,
            start_skew_max=spec.start_skew_max_s if spec.start_skew_max_s != START_SKEW_DEFAULT_S else 0,
            on_pool_lost="move" if spec.on_pool_lost is OnPoolLost.MOVE else "",
        ),
        **_given(needs=_needs(spec)),
        "pod_sets": [_pod_set(pod_set) for pod_set in spec.pod_sets],
    }


def _needs(spec: JobSpec) -> dict[str, list[str]]:
    """Those that no volume names; reading the volumes gives the others."""
    named = set[Need]().union(*(pod_set.template.needs for pod_set in spec.pod_sets))
    found: dict[str, list[str]] = {}
    for need in spec.needs:
        if need not in named:
            found.setdefault(need.kind.name.lower(), []).append(need.name)
    return found


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


def _restart(policy: RestartPolicy) -> dict[str, object]:
    fails = policy.on_infrastructure is OnInfrastructure.FAIL
    return _given(max_retries=policy.max_retries, on_infrastructure="fail" if fails else "")


def _pod_set(pod_set: PodSet) -> dict[str, object]:
    return {
        "name": pod_set.name,
        "count": pod_set.count,
        **({"min_count": pod_set.min_count} if pod_set.min_count != pod_set.count else {}),
        **_template(pod_set.template),
        **_given(
            resources=amounts_form(pod_set.resources),
            flavors=list(pod_set.flavors),
            selector=_selector(pod_set.selector),
            tolerations=[_toleration(one) for one in pod_set.tolerations],
        ),
        **_topology(pod_set.topology),
    }


def _template(template: PodTemplate) -> dict[str, object]:
    return _given(
        image=template.image,
        command=list(template.command),
        args=list(template.args),
        env=[{"name": one.name, "value": one.value} for one in template.env],
        volumes=[_volume(one) for one in template.volumes],
    )


def _volume(volume: Volume) -> dict[str, object]:
    optional = _given(source=volume.source, mount_path=volume.mount_path, read_only=volume.read_only)
    return {"name": volume.name, "kind": volume.kind.name.lower(), **optional}


def amounts_form(resources: Mapping[str, int]) -> dict[str, object]:
    """Amounts as quantities."""
    return {name: _quantity(name, value) for name, value in resources.items()}


def _quantity(name: str, value: int) -> object:
    if name == CPU:
        return f"{value}m" if value % 1_000 else value // 1_000
    if name == MEMORY:
        return binary(value).replace(",", "")
    return value


def _selector(selector: Selector) -> object:
    terms = [[requirement_form(one) for one in term] for term in selector.terms]
    return terms[0] if len(terms) == 1 else terms


def requirement_form(one: Requirement) -> dict[str, object]:
    """A requirement as `{key, operator, values}`."""
    return {"key": one.key, "operator": _OPERATORS[one.operator], **_given(values=list(one.values))}


def _toleration(one: Toleration) -> dict[str, object]:
    return _given(
        key=one.key,
        operator="Exists" if one.exists else "",
        value=one.value,
        effect=_EFFECTS.get(one.effect, ""),
    )


def _topology(topology: Topology) -> dict[str, object]:
    slices = [
        {"size": one.size, "level": one.level}
        | _given(exclusive=one.exclusive, ragged=one.ragged, preferred=one.preferred)
        for one in topology.slices
    ]
    spread = topology.spread
    return _given(
        required=topology.required,
        preferred=topology.preferred,
        slices=slices,
        balanced=topology.balanced,
        spread={"level": spread.level, "max_pods": spread.max_pods} if spread else {},
        same=list(topology.same),
        group={"name": group.name, "level": group.level} if (group := topology.group) else {},
        devices={"kind": own.kind, **({"nic": True} if own.nic else {})} if (own := topology.devices) else {},
    )
