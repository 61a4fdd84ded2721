"""A binding and its job's spec, in the terms of placement and of the cluster."""

from hanse.agent.core.records import PodRun, StartPods, Wanted
from hanse.model.desired import Binding
from hanse.model.errors import InvalidArgument
from hanse.model.job import JobSpec, PodSet
from hanse.model.request import GangRequest, SetRequest


def _pod_set(spec: JobSpec, name: str) -> PodSet:
    for pod_set in spec.pod_sets:
        if pod_set.name == name:
            return pod_set
    raise InvalidArgument(f"the binding has a pod set {name!r} that its job does not have", path="binding.sets")


def wanted_of(spec: JobSpec) -> Wanted:
    """What must be in the cluster for a job."""
    return Wanted(spec.manifest.namespace if spec.manifest else "", spec.queue, spec.every_need)


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
    """The order to run the binding's pods; InvalidArgument as above.

    Ranks count through all sets of the job. An attempt in one pool has the pods of its binding, which may be fewer
    than the spec's; of one that is split only the spec knows them all.
    """
    whole = binding.sets if binding.parts == 1 else spec.pod_sets
    before: dict[str, int] = {}
    pods = 0
    for known in whole:
        before[known.name] = pods
        pods += known.count
    runs: list[PodRun] = []
    for bound in binding.sets:
        asked = _pod_set(spec, bound.name)
        template = asked.template
        env = tuple((var.name, var.value) for var in template.env)
        runs.append(
            PodRun(
                bound.name,
                template.image,
                template.command,
                template.args,
                env,
                volumes=template.volumes,
                tolerations=asked.tolerations,
                ranks_before=before[bound.name],
            )
        )
    manifest = spec.manifest
    return StartPods(
        key=binding.key,
        job_name=spec.name,
        namespace=manifest.namespace if manifest else "",
        runs=tuple(runs),
        manifest=manifest.text if manifest else "",
        duration_s=spec.duration_s,
        world_size=pods,
        queue=spec.queue,
        companions=spec.companions,
    )
