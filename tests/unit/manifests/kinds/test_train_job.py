"""TrainJob: its runtime's JobSet with what the job says over it."""

from textwrap import dedent, indent

import pytest

from hanse.model.resources import CPU, MEMORY, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from tests.unit.manifests.texts import job_of, refusal, unmapped

GPU = "nvidia.com/gpu"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def replicated(name: str, container: str, *, step: str = "", pod: str = "") -> str:
    label = f"{{labels: {{{STEP}: {step}}}}}" if step else "{}"
    return f"""
- name: {name}
  template:
    metadata: {label}
    spec:
      template:
        spec:
          {pod}
          containers: [{{name: {container}, image: old, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]
"""


def runtime(*jobs: str, policy: str = "", groups: str = "", kind: str = "ClusterTrainingRuntime") -> str:
    return f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: {kind}
metadata: {{name: torch}}
spec:
{indent(dedent(policy), "  ")}
{indent(dedent(groups), "  ")}
  template:
    spec:
      replicatedJobs:
{indent("".join(jobs), "      ")}
"""


def train(spec: str, *beside: str) -> str:
    job = f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: tune, labels: {{kueue.x-k8s.io/queue-name: research}}}}
spec:
{indent(dedent(spec), "  ")}
"""
    return "---".join((job, *beside))


TORCH = runtime(replicated("node", "node", step="trainer"), policy="mlPolicy: {numNodes: 2, torch: {}}")
REF = "runtimeRef: {name: torch}\n"


def sets(text: str) -> list[tuple[str, int]]:
    return [(s.name, s.count) for s in job_of(text).spec.pod_sets]


def test_the_runtime_says_how_many_nodes() -> None:
    job = job_of(train(REF, TORCH))
    assert [(s.name, s.count, s.min_count) for s in job.spec.pod_sets] == [("node", 2, 2)]
    assert (job.kind, job.spec.queue, job.min_total) == ("TrainJob", "research", 2)
    assert job.spec.manifest is not None
    assert "ClusterTrainingRuntime" in job.spec.manifest.text


def test_the_job_says_it_over_the_runtime() -> None:
    trainer = f"""
    trainer:
      image: new
      args: [--fast]
      numNodes: 8
      resourcesPerNode: {{limits: {{{GPU}: 4}}, requests: {{cpu: 16}}}}
    """
    (pods,) = job_of(train(REF + dedent(trainer), TORCH)).spec.pod_sets
    assert pods.count == 8
    assert pods.resources == Resources({CPU: 16_000, MEMORY: 2**30, GPU: 4})
    assert (pods.template.image, pods.template.args) == ("new", ("--fast",))


def test_initializers_are_of_the_gang_and_keep_their_own() -> None:
    both = runtime(
        replicated("dataset", "fetch", step="dataset-initializer"), replicated("node", "node", step="trainer")
    )
    job = job_of(train(REF + "trainer: {numNodes: 4, image: new}", both))
    assert [(s.name, s.count, s.template.image) for s in job.spec.pod_sets] == [
        ("dataset", 1, "old"),
        ("node", 4, "new"),
    ]
    assert job.min_total == 5


@pytest.mark.parametrize(
    ("as_node", "nodes", "wanted"),
    [
        ("true", 4, [("launcher", 1), ("node", 3)]),
        ("false", 4, [("launcher", 1), ("node", 4)]),
        ("true", 1, [("launcher", 1), ("node", 1)]),
    ],
)
def test_a_launcher_may_be_one_of_the_nodes(as_node: str, nodes: int, wanted: list[tuple[str, int]]) -> None:
    mpi = runtime(
        replicated("launcher", "node", step="trainer"),
        replicated("node", "node"),
        policy=f"mlPolicy: {{numNodes: {nodes}, mpi: {{runLauncherAsNode: {as_node}}}}}",
    )
    assert sets(train(REF, mpi)) == wanted


def test_patches_add_conditions_on_nodes() -> None:
    pinned = runtime(replicated("node", "node", step="trainer", pod="nodeSelector: {zone: a, disk: ssd}"))
    patch = """
    podTemplateOverrides:
    - targetJobs: [{name: node}]
      spec: {nodeSelector: {zone: b}, tolerations: [{key: gpu, operator: Exists}]}
    """
    (pods,) = job_of(train(REF + dedent(patch), pinned)).spec.pod_sets
    wanted = (Requirement("zone", Operator.IN, ("b",)), Requirement("disk", Operator.IN, ("ssd",)))
    assert pods.selector == Selector((wanted,))
    assert [t.key for t in pods.tolerations] == ["gpu"]


def test_the_newer_form_of_patches_is_read_too() -> None:
    inner = "{name: node, template: {spec: {template: {spec: {nodeSelector: {zone: b}}}}}}"
    patch = f"runtimePatches: [{{trainingRuntimeSpec: {{template: {{spec: {{replicatedJobs: [{inner}]}}}}}}}}]"
    (pods,) = job_of(train(REF + patch, TORCH)).spec.pod_sets
    assert pods.selector == Selector(((Requirement("zone", Operator.IN, ("b",)),),))


def test_a_network_topology_of_the_runtime_holds_the_job() -> None:
    groups = "podGroupPolicy: {volcano: {networkTopology: {mode: hard, highestTierName: rack}}}"
    (pods,) = job_of(train(REF, runtime(replicated("node", "node"), groups=groups))).spec.pod_sets
    assert pods.topology.required == "rack"


def test_a_runtime_that_is_not_there_is_refused() -> None:
    assert refusal(train("runtimeRef: {name: torhc}", TORCH))[:2] == ("MISSING", "spec.runtimeRef.name")
    assert refusal(train("runtimeRef: {name: torch, kind: TrainingRuntime}", TORCH))[0] == "MISSING"


def test_a_runtime_that_nobody_uses_is_refused() -> None:
    assert refusal(TORCH)[0] == "NO_SUCH_JOB"


def test_what_is_not_acted_on_is_told() -> None:
    assert unmapped(train(REF + "suspend: true\nmanagedBy: x", TORCH)).keys() >= {"spec.suspend", "spec.managedBy"}
