"""What a manifest means to Hanse: its jobs, and each field that is not acted on, with its line."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hanse.cli.amounts import amounts, counted, number, seconds
from hanse.cli.paper import Paper, Tone, joined
from hanse.cli.show.facts import facts
from hanse.cli.show.topology import topology_words
from hanse.cli.symbols import TIMES

if TYPE_CHECKING:
    from hanse.manifests.converted import Converted, ImportedJob, Unmapped
    from hanse.model.job import PodSet


def conversion_page(converted: "Converted", paper: Paper, *, file: str) -> str:
    """The jobs, then what is left out."""
    lines: list[str] = []
    for job in converted.jobs:
        lines += [f"{paper.paint(job.spec.name, Tone.STRONG)}  {job.kind}", *facts(list(_facts(job)), paper), ""]
    if not converted.unmapped:
        return joined([*lines, "every field is acted on"])
    fields = counted(len(converted.unmapped), "field")
    left_out = [f"  {line}" for line in unmapped_lines(converted.unmapped, file)]
    return joined([*lines, f"{fields} not acted on:", *left_out])


def unmapped_lines(unmapped: "Iterable[Unmapped]", file: str) -> list[str]:
    """`llama.yaml:17: spec.runPolicy.cleanPodPolicy: pods are always removed`."""
    return [f"{file}:{one.line}: {one.path}: {one.why}" for one in unmapped]


def _facts(job: "ImportedJob") -> Iterator[tuple[str, str]]:
    spec = job.spec
    yield "queue", spec.queue or "not named"
    if spec.priority_class:
        yield "priority", spec.priority_class
    if job.namespace:
        yield "namespace", job.namespace
    for pod_set in spec.pod_sets:
        yield "pods", _pod_set(pod_set)
    least = "" if job.min_total == spec.pods else f"; useless below {counted(job.min_total, 'pod')}"
    yield "gang", f"{counted(spec.pods, 'pod')}, {counted(spec.gpus, 'GPU')}{least}"
    if spec.needs:
        yield "needs", ", ".join(str(need) for need in spec.needs)
    if spec.companions:
        yield "beside it", ", ".join(f"{companion.kind} {companion.name}" for companion in spec.companions)
    if spec.duration_s:
        yield "duration", f"at most {seconds(spec.duration_s)}"


def _pod_set(pod_set: "PodSet") -> str:
    each = amounts(pod_set.resources) or "nothing"
    parts = [f"{pod_set.name}: {number(pod_set.count)} {TIMES} ({each})"]
    if pod_set.flavors:
        parts.append(f"of {' or '.join(pod_set.flavors)}")
    asked = pod_set.topology
    parts += topology_words(
        asked.required, asked.preferred,
        slices=asked.slices, balanced=asked.balanced, spread=asked.spread, same=asked.same, group=asked.group,
        devices=asked.devices,
    )  # fmt: skip
    return ", ".join(parts)
