"""Clusters by the names that people give them."""

from pathlib import Path

import pytest

from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster
from hanse.agent.cluster.opening import open_cluster
from hanse.agent.cluster.port import ClusterUnavailable
from hanse.agent.cluster.simulated_grpc import GrpcCluster
from hanse.model.errors import InvalidArgument


@pytest.mark.parametrize("text", ["", "sim:", "kubeconfig:", "in-cluster:x", "nowhere", "Sim:a:1"])
async def test_what_names_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="kubeconfig:PATH"):
        open_cluster(text, "pool")


async def test_a_kubeconfig_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no file"):
        open_cluster(f"kubeconfig:{tmp_path / 'none'}", "pool")


async def test_each_kind_has_its_adapter(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("{}")
    opened = [open_cluster(text, "pool") for text in ("sim:127.0.0.1:1", f"kubeconfig:{config}#prod", "in-cluster")]
    assert [type(one) for one in opened] == [GrpcCluster, KubernetesCluster, KubernetesCluster]
    for one in opened:
        await one.close()


async def test_a_broken_kubeconfig_is_said_when_it_is_used(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("current-context: none\ncontexts: []\n")
    port = open_cluster(f"kubeconfig:{config}", "pool")
    with pytest.raises(ClusterUnavailable, match="none"):
        await port.read_claim()
    await port.close()


async def test_outside_of_a_pod_there_is_no_cluster_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    port = open_cluster("in-cluster", "pool")
    with pytest.raises(ClusterUnavailable, match="host/port"):
        await port.read_claim()
    await port.close()
