"""TrainJob (`trainer.kubeflow.org/v1alpha1`) with its runtime: the runtime's JobSet, with what the job says over it.

The runtime stands in the same submission: it is what says which pods there are, and every cluster may have its own.
`numNodes` counts the pods of the replicated Job `node`; under an MPI runtime whose launcher counts as a node, one of
them is the launcher, though one is left in any case. `resourcesPerNode`, image, command and environment go into the
container `node` of the Jobs that train; initializers are part of the gang, as Trainer counts them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, hold_together
from hanse.manifests.fields import Field, Placed, suggestion
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.job_set import job_set_draft
from hanse.manifests.kinds.kubeflow import MANAGED_WHY, TIMEOUT_WHY, note_suspend, with_limits
from hanse.manifests.kinds.training_runtime import GROUP, KINDS, VERSIONS
from hanse.manifests.node_choice import patched_selector, tolerations
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pod_resources import Override, pod_resources
from hanse.manifests.pods import main_container, template_of
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import network_wishes
from hanse.model.names import quoted

_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER: Final = "trainer"
_NODE: Final = "node"  # the replicated Job of the nodes, and the container that trains
_LAUNCHER: Final = "launcher"
_MAPPED: Final = (
    "runtimeRef",
    "trainer",
    "suspend",
    "activeDeadlineSeconds",
    "podTemplateOverrides",
    "runtimePatches",
)
_TRAINER_MAPPED: Final = ("image", "command", "args", "env", "numNodes", "resourcesPerNode")
_PATCH_KEPT: Final = (
    "serviceAccountName",
    "volumes",
    "initContainers",
    "containers",
    "schedulingGates",
    "imagePullSecrets",
    "securityContext",
)
_RUNTIME_WHY: Final = "how the processes of a node find each other is the runtime's affair"


@dataclass(frozen=True, slots=True)
class _Runtime:
    """A runtime's spec.

    Attributes:
        nodes: `mlPolicy.numNodes`, None if it is not set.
        launcher_is_node: the launcher of MPI is one of the nodes.
    """

    document: Document
    template: Field
    nodes: Placed[int] | None
    launcher_is_node: bool
    groups: Field | None


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say which runtime trains")
    audit(spec, notes, mapped=_MAPPED, kept=("labels", "annotations", "initializer"), why={"managedBy": MANAGED_WHY})
    note_suspend(spec, notes)
    runtime = _runtime(spec, submission)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    draft = job_set_draft(document, runtime.template, keys, notes)
    jobs = list(runtime.template.need("replicatedJobs").items())
    sets = [_trained(one, job, spec, notes) for one, job in zip(draft.sets, jobs, strict=True)]
    sets = _counted(sets, jobs, spec, runtime)
    patched = tuple(_patched(one, spec, notes) for one in sets)
    draft = replace(draft, sets=patched, documents=(*draft.documents, runtime.document))
    return [with_limits(_held(draft, runtime.groups, notes), spec)]


def _runtime(spec: Field, submission: Submission) -> _Runtime:
    reference = spec.need("runtimeRef", "no runtimeRef; say which runtime trains")
    audit(reference, submission.notes, mapped=("name", "kind", "apiGroup"))
    kind = reference.get("kind")
    wanted = kind.one_of(*KINDS) if kind else KINDS[0]
    name = reference.need("name", "no name; say which runtime trains")
    found = _document(wanted, name, submission)
    submission.used.add(found.index)
    return _opened(found, submission.notes)


def _document(kind: str, name: Field, submission: Submission) -> Document:
    runtimes = {
        metadata.need("name").text(): one
        for one in submission.documents
        if (one.group, one.kind) == (GROUP, kind) and (metadata := one.field.get("metadata"))
    }
    found = runtimes.get(name.text())
    if found is None:
        near = suggestion(name.text(), runtimes)
        advice = near or "; add it to the file, as `kubectl get -o yaml` prints it"
        name.refuse("MISSING", f"the {kind} {quoted(name.text())} is not in this submission{advice}")
    return found


def _opened(document: Document, notes: Notes) -> _Runtime:
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; a runtime has a template")
    audit(spec, notes, mapped=("template", "mlPolicy", "podGroupPolicy"))
    policy = spec.get("mlPolicy")
    if policy:
        audit(
            policy,
            notes,
            mapped=("numNodes", "mpi"),
            why=dict.fromkeys(("torch", "plainML", "jax", "xgboost"), _RUNTIME_WHY),
        )
    nodes, mpi = (policy.get("numNodes"), policy.get("mpi")) if policy else (None, None)
    as_node = mpi.get("runLauncherAsNode") if mpi else None
    template = spec.need("template", "no template; it says which pods there are")
    audit(template, notes, mapped=("spec",), kept=("metadata",))
    return _Runtime(
        document,
        template.need("spec", "no JobSet spec"),
        Placed(nodes.at_least(1, "nodes"), nodes) if nodes else None,
        as_node is not None and as_node.boolean(),
        spec.get("podGroupPolicy"),
    )


def _trains(job: Field) -> bool:
    """Whether the container `node` of this replicated Job is the one that the job's trainer describes."""
    if job.need("name").text() == _NODE:
        return True
    metadata = job.need("template").get("metadata")
    labels = metadata.get("labels") if metadata else None
    step = labels.get(_STEP) if labels else None
    return step is not None and step.text() == _TRAINER


def _trained(one: DraftSet, job: Field, spec: Field, notes: Notes) -> DraftSet:
    trainer = spec.get("trainer")
    if trainer is None or not _trains(job):
        return one
    audit(trainer, notes, mapped=_TRAINER_MAPPED, kept=("numProcPerNode",))
    pod, resources = one.pod, trainer.get("resourcesPerNode")
    if resources:
        audit(resources, notes, mapped=("requests", "limits", "claims"))
        counted = pod_resources(pod.spec, notes, Override(_NODE, resources))
        pod = replace(pod, resources=counted)
    containers = list(pod.spec.need("containers").items())
    own, said = template_of(main_container(containers, _NODE), notes), template_of(trainer, notes)
    known = {variable.name for variable in said.env}
    template = replace(
        own,
        image=said.image or own.image,
        command=said.command or own.command,
        args=said.args or own.args,
        env=(*(variable for variable in own.env if variable.name not in known), *said.env),
    )
    return replace(one, pod=replace(pod, template=template))


def _counted(sets: Sequence[DraftSet], jobs: Sequence[Field], spec: Field, runtime: _Runtime) -> list[DraftSet]:
    trainer = spec.get("trainer")
    written = trainer.get("numNodes") if trainer else None
    nodes = Placed(written.at_least(1, "nodes"), written) if written else runtime.nodes
    if nodes is None:
        return list(sets)
    names = [job.need("name").text() for job in jobs]
    counted = _NODE if _NODE in names else next((n for n, j in zip(names, jobs, strict=True) if _trains(j)), "")
    launched = runtime.launcher_is_node and _LAUNCHER in names
    count = Placed(max(nodes.value - launched, 1), nodes.field)
    return [replace(one, count=count) if name == counted else one for one, name in zip(sets, names, strict=True)]


def _patched(one: DraftSet, spec: Field, notes: Notes) -> DraftSet:
    """The set with the conditions on nodes that the job adds to the runtime's."""
    patches = list(_patches(one.name, spec, notes))
    if not patches:
        return one
    for patch in patches:
        audit(patch, notes, mapped=("nodeSelector", "affinity", "tolerations"), kept=_PATCH_KEPT)
    specs = (one.pod.spec, *patches)
    tolerated = tuple(toleration for spec in specs for toleration in tolerations(spec, notes))
    return replace(one, pod=replace(one.pod, selector=patched_selector(specs, notes), tolerations=tolerated))


def _patches(name: str, spec: Field, notes: Notes) -> Iterator[Field]:
    overrides, patches = spec.get("podTemplateOverrides"), spec.get("runtimePatches")
    for override in overrides.items() if overrides else ():
        audit(override, notes, mapped=("targetJobs", "spec"), kept=("metadata", "manager"))
        targets = [target.need("name").text() for target in override.need("targetJobs").items()]
        found = override.get("spec")
        if name in targets and found:
            yield found
    for patch in patches.items() if patches else ():
        yield from _runtime_patch(name, patch)


def _runtime_patch(name: str, patch: Field) -> Iterator[Field]:
    at: Field | None = patch
    for key in ("trainingRuntimeSpec", "template", "spec", "replicatedJobs"):
        at = at.get(key) if at else None
    for job in at.items() if at else ():
        found: Field | None = job if job.need("name").text() == name else None
        for key in ("template", "spec", "template", "spec"):
            found = found.get(key) if found else None
        if found:
            yield found


def _held(draft: Draft, groups: Field | None, notes: Notes) -> Draft:
    if groups is None:
        return draft
    audit(groups, notes, mapped=("volcano", "coscheduling"))
    volcano, timed = groups.get("volcano"), groups.get("coscheduling")
    if timed:
        audit(timed, notes, mapped=(), why={"scheduleTimeoutSeconds": TIMEOUT_WHY})
    network = volcano.get("networkTopology") if volcano else None
    return hold_together(draft, network_wishes(network, notes), notes) if network else draft


KIND: Final = Kind(GROUP, "TrainJob", VERSIONS, _read)
