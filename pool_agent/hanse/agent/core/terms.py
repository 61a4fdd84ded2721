"""A binding and its job's spec, in the terms of placement and of the cluster."""

from hanse.agent.core.records import PodRun, StartPods
from hanse.model.desired import Binding
from hanse.model.errors import InvalidArgument
from hanse.model.job import JobSpec, PodSet
from hanse.model.request import GangRequest, SetRequest


def _pod_set(spec: JobSpec, name: str) -> PodSet:
    for pod_set in spec.pod_sets:
        if pod_set.name == name:
            return pod_set
    raise InvalidArgument(f"the binding has a pod set {name!r} that its job does not have", path="binding.sets")


def part_request(binding: Binding, spec: JobSpec) -> GangRequest:
    """What is to be placed: exactly the binding's counts, each set in the flavor that it is charged to.

    Raises:
        InvalidArgument: the binding does not belong to the spec.
    """
    sets: list[SetRequest] = []
    for bound in binding.sets:
        asked = _pod_set(spec, bound.name)
        sets.append(
            SetRequest(
                count=bound.count,
                min_count=bound.count,
                resources=asked.resources,
                flavors=(bound.flavor,),
                selector=asked.selector,
                tolerations=asked.tolerations,
                topology=asked.topology,
            )
        )
    return GangRequest(tuple(sets))


def start_op(binding: Binding, spec: JobSpec) -> StartPods:
    """The order to run the binding's pods; InvalidArgument as above."""
    runs: list[PodRun] = []
    for bound in binding.sets:
        template = _pod_set(spec, bound.name).template
        env = tuple((var.name, var.value) for var in template.env)
        runs.append(PodRun(bound.name, template.image, template.command, template.args, env))
    manifest = spec.manifest
    return StartPods(
        key=binding.key,
        job_name=spec.name,
        namespace=manifest.namespace if manifest else "",
        runs=tuple(runs),
        manifest=manifest.text if manifest else "",
        duration_s=spec.duration_s,
    )
