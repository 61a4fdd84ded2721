"""Manifests to convert, and the two ways to look at what comes out."""

from textwrap import dedent, indent

import pytest

from hanse.manifests import Converted, ImportedJob, convert
from hanse.model.errors import InvalidArgument

CONTAINER = "{name: main, image: registry.example/train:1, resources: {limits: {nvidia.com/gpu: 8}}}"


def job_of(text: str) -> ImportedJob:
    """The only job of a manifest."""
    (job,) = convert(dedent(text)).jobs
    return job


def converted(text: str) -> Converted:
    """All of a conversion."""
    return convert(dedent(text))


def unmapped(text: str) -> dict[str, str]:
    """Path → why, of everything that is not mapped."""
    return {found.path: found.why for found in converted(text).unmapped}


def refusal(text: str | bytes) -> tuple[str, str, int]:
    """Reason, path and line of the refusal of a manifest."""
    with pytest.raises(InvalidArgument) as caught:
        convert(dedent(text) if isinstance(text, str) else text)
    error = caught.value
    assert error.message
    assert "\n" not in str(error)
    return error.reason, error.path, error.line


def batch_job(pod: str = "", *, spec: str = "", head: str = "", template: str = "") -> str:
    """A batch Job; each argument is YAML that goes into its pod spec, spec, metadata, or template metadata."""
    return "\n".join(
        (
            "apiVersion: batch/v1",
            "kind: Job",
            "metadata:",
            "  name: train",
            indent(dedent(head), "  "),
            "spec:",
            indent(dedent(spec), "  "),
            "  template:",
            "    metadata:",
            "      labels: {app: train}",
            indent(dedent(template), "      "),
            "    spec:",
            "      restartPolicy: Never",
            "" if "containers:" in pod else f"      containers: [{CONTAINER}]",
            indent(dedent(pod), "      "),
        )
    )


def pytorch_job(
    *, workers: int | str = 4, master: bool = False, run: str = "", head: str = "", more: str = ""
) -> str:
    """A PyTorchJob; `run` goes into runPolicy, `head` into metadata, `more` into spec."""
    template = f"{{spec: {{containers: [{CONTAINER}]}}}}"
    lines = [
        "apiVersion: kubeflow.org/v1",
        "kind: PyTorchJob",
        "metadata:",
        "  name: train",
        indent(dedent(head), "  "),
        "spec:",
        indent(dedent(more), "  "),
        "  pytorchReplicaSpecs:",
        f"    Worker: {{replicas: {workers}, template: {template}}}",
    ]
    if master:
        lines.append(f"    Master: {{replicas: 1, template: {template}}}")
    if run:
        lines += ["  runPolicy:", indent(dedent(run), "    ")]
    return "\n".join(lines)


def pod_group(spec: str, *, name: str = "train", head: str = "") -> str:
    """A Volcano PodGroup and the marker of the next document."""
    return "\n".join(
        (
            "apiVersion: scheduling.volcano.sh/v1beta1",
            "kind: PodGroup",
            "metadata:",
            f"  name: {name}",
            indent(dedent(head), "  "),
            "spec:",
            indent(dedent(spec), "  "),
            "---",
            "",
        )
    )
