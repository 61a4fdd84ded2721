"""One module per kind of object that becomes a job, or says something about one."""

from typing import NoReturn

from hanse.manifests.documents import Document
from hanse.manifests.fields import suggestion
from hanse.manifests.kinds import (
    app_wrapper,
    batch_job,
    coscheduling_pod_group,
    jax_job,
    job_set,
    kai_pod_group,
    leader_worker_set,
    mpi_job,
    native,
    paddle_job,
    pod,
    pytorch_job,
    ray_cluster,
    ray_job,
    scheduling_group,
    tf_job,
    train_job,
    training_runtime,
    volcano_job,
    volcano_pod_group,
    xgboost_job,
)
from hanse.manifests.registry import Kind
from hanse.model.names import quoted


def entries() -> tuple[Kind, ...]:
    """All kinds that are read."""
    return (
        native.KIND,
        pytorch_job.KIND,
        tf_job.KIND,
        xgboost_job.KIND,
        paddle_job.KIND,
        jax_job.KIND,
        mpi_job.KIND,
        volcano_pod_group.KIND,
        coscheduling_pod_group.KIND,
        batch_job.KIND,
        ray_job.KIND,
        ray_cluster.KIND,
        job_set.KIND,
        train_job.KIND,
        training_runtime.CLUSTER_KIND,
        training_runtime.KIND,
        leader_worker_set.KIND,
        app_wrapper.KIND,
        scheduling_group.POD_GROUP,
        scheduling_group.WORKLOAD,
        kai_pod_group.KIND,
        volcano_job.KIND,
        pod.KIND,
    )


_TABLE = {(kind.group, kind.name): kind for kind in entries()}


def kind_of(document: Document) -> Kind:
    """The entry that reads a document.

    Raises:
        InvalidArgument: reason UNKNOWN_KIND.
    """
    found = _TABLE.get((document.group, document.kind))
    if found is None:
        _refuse(document)
    if document.version not in found.versions:
        versions = " or ".join(f"{found.group}/{v}" if found.group else v for v in found.versions)
        document.field.need("apiVersion").refuse(
            "UNKNOWN_KIND", f"{quoted(document.api_version)} is not read; {found.name} is read as {versions}"
        )
    return found


def is_read(document: Document) -> bool:
    """Whether the document is of a kind and version that becomes a job, or says something about one."""
    found = _TABLE.get((document.group, document.kind))
    return found is not None and document.version in found.versions


def _refuse(document: Document) -> NoReturn:
    kind = document.field.get("kind") or document.field
    meant = sorted(
        f"{known.group}/{known.versions[0]}" if known.group else known.versions[0]
        for known in _TABLE.values()
        if known.name == document.kind
    )
    if meant:
        kind.refuse("UNKNOWN_KIND", f"{document.kind} of {document.api_version} is not known; {', '.join(meant)} is")
    near = suggestion(document.kind, {name for _, name in _TABLE})
    kind.refuse("UNKNOWN_KIND", f"{quoted(document.kind)} is not a kind that becomes a job{near}")
