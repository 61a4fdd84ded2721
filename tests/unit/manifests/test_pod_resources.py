"""A pod's request is what Kubernetes counts."""

import pytest

from tests.unit.manifests.texts import batch_job, job_of, refusal

GI = 2**30


def request(pod: str) -> dict[str, int]:
    (pod_set,) = job_of(batch_job(pod)).spec.pod_sets
    return dict(pod_set.resources)


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ("containers: [{name: a}]", {}),
        ("containers: [{name: a, resources: {requests: {cpu: 500m, memory: 1Gi}}}]", {"cpu": 500, "memory": GI}),
        ("containers: [{name: a, resources: {limits: {cpu: 2}}}]", {"cpu": 2000}),
        (
            "containers: [{name: a, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]",
            {"cpu": 1000, "memory": GI},
        ),
        ("containers: [{name: a, resources: {limits: {cpu: 2}, requests: {cpu: 0}}}]", {}),
        (
            "containers: [{name: a, resources: {requests: {cpu: 1}}}, {name: b, resources: {requests: {cpu: 2}}}]",
            {"cpu": 3000},
        ),
        (
            """
            initContainers: [{name: i, resources: {requests: {cpu: 4, memory: 1Gi}}}]
            containers: [{name: a, resources: {requests: {cpu: 1, memory: 2Gi}}}]
            """,
            {"cpu": 4000, "memory": 2 * GI},
        ),
        (  # a sidecar runs beside everything that comes after it
            """
            initContainers:
            - {name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}
            - {name: i, resources: {requests: {cpu: 4}}}
            containers: [{name: a, resources: {requests: {cpu: 2}}}]
            """,
            {"cpu": 5000},
        ),
        (  # but not beside what came before
            """
            initContainers:
            - {name: i, resources: {requests: {cpu: 4}}}
            - {name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}
            containers: [{name: a, resources: {requests: {cpu: 2}}}]
            """,
            {"cpu": 4000},
        ),
        (
            """
            initContainers:
            - {name: s, restartPolicy: Always, resources: {limits: {cpu: 1}}}
            - {name: t, restartPolicy: Always, resources: {requests: {cpu: 1}}}
            containers: [{name: a, resources: {requests: {cpu: 2}}}]
            """,
            {"cpu": 4000},
        ),
        (
            """
            overhead: {cpu: 250m, memory: 1Gi}
            containers: [{name: a, resources: {requests: {cpu: 1}}}]
            """,
            {"cpu": 1250, "memory": GI},
        ),
        (  # resources of the pod as a whole replace the sum, for what they name
            """
            resources: {requests: {cpu: 3}}
            containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {nvidia.com/gpu: 8}}}]
            """,
            {"cpu": 3000, "memory": GI, "nvidia.com/gpu": 8},
        ),
        (  # a limit of the pod counts where neither it nor a container requests
            """
            resources: {limits: {cpu: 3, memory: 4Gi}}
            overhead: {cpu: 100m}
            containers: [{name: a, resources: {requests: {memory: 1Gi}}}]
            """,
            {"cpu": 3100, "memory": GI},
        ),
        (
            "containers: [{name: a, resources: {requests: {hugepages-2Mi: 1Gi, ephemeral-storage: 10G}}}]",
            {"hugepages-2Mi": GI, "ephemeral-storage": 10**10},
        ),
    ],
)
def test_a_pod_requests(pod: str, wanted: dict[str, int]) -> None:
    assert request(pod) == wanted


@pytest.mark.parametrize(
    ("name", "written", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", '"1"', 1000),
        ("cpu", "0.1", 100),
        ("cpu", ".5", 500),
        ("cpu", "1500m", 1500),
        ("cpu", "100u", 1),
        ("cpu", "1n", 1),
        ("cpu", "1e3", 1_000_000),
        ("cpu", "2k", 2_000_000),
        ("memory", "64Gi", 64 * GI),
        ("memory", "1.5Gi", GI * 3 // 2),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129_000_000),
        ("memory", "129M", 129_000_000),
        ("memory", "128974848000m", 128974848),
        ("memory", "123Mi", 123 * 2**20),
        ("memory", "1E", 10**18),
        ("memory", "1Ei", 2**60),
        ("memory", "1Ti", 2**40),
        ("memory", "1P", 10**15),
        ("memory", "1_000", 1000),
        ("memory", "0x10", 16),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", '"8"', 8),
        ("nvidia.com/gpu", "8.0", 8),
        ("nvidia.com/gpu", "8000m", 8),
        ("rdma/hca", "1k", 1000),
    ],
)
def test_a_quantity_is(name: str, written: str, amount: int) -> None:
    assert request(f"containers: [{{name: a, resources: {{limits: {{{name}: {written}}}}}}}]") == {name: amount}


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ("limits: {cpu: -1}", "QUANTITY"),
        ("limits: {cpu: 1Q}", "QUANTITY"),
        ("limits: {cpu: 1 Gi}", "QUANTITY"),
        ('limits: {memory: ""}', "QUANTITY"),
        ("limits: {memory: yes}", "QUANTITY"),
        ("limits: {memory: [1]}", "TYPE"),
        ("limits: {memory: .nan}", "QUANTITY"),
        ("limits: {memory: 1e999}", "QUANTITY"),
        ("limits: {memory: 99999999999999999999}", "QUANTITY"),
        ("limits: {nvidia.com/gpu: 0.5}", "QUANTITY"),
        ("limits: {nvidia.com/gpu: 500m}", "QUANTITY"),
        ("limits: {'a b': 1}", "RESOURCE_INVALID"),
        ("limits: {cpu: 1}, requests: {cpu: 2}", "CONTRADICTION"),
        ("limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 4}", "CONTRADICTION"),
        ("limits: [cpu]", "TYPE"),
    ],
)
def test_resources_that_make_no_sense_are_refused(resources: str, reason: str) -> None:
    found, path, line = refusal(batch_job(f"containers: [{{name: a, resources: {{{resources}}}}}]"))
    assert found == reason
    assert path.startswith("spec.template.spec.containers[0].resources.")
    assert line > 0


def test_a_path_quotes_a_resource_name() -> None:
    text = batch_job("containers: [{name: a, resources: {limits: {nvidia.com/gpu: -8}}}]")
    assert refusal(text)[1] == 'spec.template.spec.containers[0].resources.limits["nvidia.com/gpu"]'


def test_a_pod_as_a_whole_has_no_devices() -> None:
    text = batch_job("resources: {limits: {nvidia.com/gpu: 8}}\ncontainers: [{name: a}]")
    assert refusal(text)[0] == "RESOURCE_INVALID"


def test_requests_without_limits_are_taken_for_devices_too() -> None:
    assert request("containers: [{name: a, resources: {requests: {nvidia.com/gpu: 8}}}]") == {"nvidia.com/gpu": 8}
