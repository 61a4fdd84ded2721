"""The other kinds of the training operator and the MPI operator."""

import pytest

from tests.unit.manifests.texts import job_of, pod_group, refusal, unmapped

TEMPLATE = "template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}"


def training_job(kind: str, key: str, replicas: dict[str, int], *, version: str = "v1", spec: str = "{}") -> str:
    listed = "".join(f"\n    {name}: {{replicas: {count}, {TEMPLATE}}}" for name, count in replicas.items())
    rest = "" if spec == "{}" else f"\n  {spec}"
    head = f"apiVersion: kubeflow.org/{version}\nkind: {kind}\nmetadata: {{name: train}}\n"
    return f"{head}spec:{rest}\n  {key}:{listed}\n"


@pytest.mark.parametrize(
    ("kind", "key", "replicas", "sets"),
    [
        (
            "TFJob",
            "tfReplicaSpecs",
            {"Worker": 4, "PS": 2, "Evaluator": 1, "Chief": 1},
            [("chief", 1), ("ps", 2), ("worker", 4), ("evaluator", 1)],
        ),
        ("XGBoostJob", "xgbReplicaSpecs", {"Worker": 2, "Master": 1}, [("master", 1), ("worker", 2)]),
        ("PaddleJob", "paddleReplicaSpecs", {"Worker": 2}, [("worker", 2)]),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 2}, [("worker", 2)]),
        ("MPIJob", "mpiReplicaSpecs", {"Worker": 16, "Launcher": 1}, [("launcher", 1), ("worker", 16)]),
    ],
)
def test_replica_types_are_pod_sets_in_rank_order(
    kind: str, key: str, replicas: dict[str, int], sets: list[tuple[str, int]]
) -> None:
    job = job_of(training_job(kind, key, replicas))
    assert job.kind == kind
    assert [(s.name, s.count) for s in job.spec.pod_sets] == sets
    assert job.min_total == sum(replicas.values())


def mpi_job(launchers: int = 1, *, spec: str = "{}") -> str:
    replicas = {"Launcher": launchers, "Worker": 16}
    return training_job("MPIJob", "mpiReplicaSpecs", replicas, version="v2beta1", spec=spec)


def test_a_launcher_that_waits_for_its_workers_is_not_waited_for() -> None:
    job = job_of(mpi_job(spec="launcherCreationPolicy: WaitForWorkersReady"))
    assert job.min_total == 16
    assert [s.min_count for s in job.spec.pod_sets] == [0, 16]
    assert job.spec.pods == 17


def test_a_launcher_that_starts_with_its_workers_counts() -> None:
    job = job_of(mpi_job(spec="launcherCreationPolicy: AtStartup"))
    assert (job.min_total, [s.min_count for s in job.spec.pod_sets]) == (17, [1, 16])


def test_a_stated_minimum_beats_the_waiting_launcher() -> None:
    spec = "launcherCreationPolicy: WaitForWorkersReady\n  runPolicy: {schedulingPolicy: {minAvailable: 10}}"
    job = job_of(mpi_job(spec=spec))
    assert job.min_total == 10
    assert sum(s.min_count for s in job.spec.pod_sets) == 10


@pytest.mark.parametrize("launchers", [0, 2])
def test_there_is_exactly_one_launcher(launchers: int) -> None:
    assert refusal(mpi_job(launchers))[:2] == ("COUNT_OUT_OF_RANGE", "spec.mpiReplicaSpecs.Launcher.replicas")


def test_a_launcher_must_be_there() -> None:
    text = training_job("MPIJob", "mpiReplicaSpecs", {"Worker": 2})
    assert refusal(text)[:2] == ("MISSING", "spec.mpiReplicaSpecs")


def test_the_scheduling_policy_beats_the_annotation() -> None:
    text = mpi_job(spec="runPolicy: {schedulingPolicy: {queue: policy}}").replace(
        "{name: train}", "{name: train, annotations: {scheduling.volcano.sh/queue-name: annotation}}"
    )
    assert job_of(text).spec.queue == "policy"
    assert set(unmapped(text)) == {'metadata.annotations["scheduling.volcano.sh/queue-name"]'}


def test_both_versions_of_an_mpi_job_are_read() -> None:
    assert refusal(mpi_job().replace("v2beta1", "v3"))[:2] == ("UNKNOWN_KIND", "apiVersion")
    assert job_of(mpi_job().replace("v2beta1", "v1")).spec.pods == 17


def test_a_coscheduling_group_is_a_minimum() -> None:
    group = pod_group("minMember: 9\nscheduleTimeoutSeconds: 60").replace(
        "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"
    )
    job = job_of(group + mpi_job())
    assert (job.min_total, job.spec.queue) == (9, "")
    assert set(unmapped(group + mpi_job())) == {"spec.scheduleTimeoutSeconds"}
