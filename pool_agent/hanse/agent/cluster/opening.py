"""Opens the port to a cluster from the text by which people name it.

    sim:HOST:PORT             a simulated cluster of that server, by the pool's name
    kubeconfig:PATH           a real one, as `kubectl` would reach it; PATH#CONTEXT names a context of the file
    in-cluster                the one in which this process runs as a pod

Each adapter is imported when it is asked for: the client of real clusters costs a second to load.
"""

from pathlib import Path
from random import Random
from typing import Final, Protocol

from hanse.agent.cluster.port import ClusterPort
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

KINDS: Final = "sim:HOST:PORT, kubeconfig:PATH[#CONTEXT] or in-cluster"


class OpenCluster(ClusterPort, Protocol):
    """A port that somebody opened, and closes."""

    async def close(self) -> None:
        """Let go of it; what runs in the cluster runs on."""
        ...


def open_cluster(spec: str, pool: str, rng: Random | None = None) -> OpenCluster:
    """The cluster that a text names; it is connected to when it is first used. Needs a running event loop.

    Raises:
        InvalidArgument: the text names none, or its file is not there.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "sim" if rest:
            from hanse.agent.cluster.simulated_grpc import GrpcCluster

            return GrpcCluster(rest, pool)
        case "kubeconfig" if rest:
            return _kubeconfig(rest, pool, rng)
        case "in-cluster" if not rest:
            from hanse.agent.cluster.kubernetes.api import InCluster
            from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster

            return KubernetesCluster(InCluster(), pool, rng=rng)
        case _:
            raise InvalidArgument(f"{quoted(spec)} is no cluster; write {KINDS}", reason="CLUSTER", path="--cluster")


def _kubeconfig(text: str, pool: str, rng: Random | None) -> OpenCluster:
    from hanse.agent.cluster.kubernetes.api import Kubeconfig
    from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster

    name, _, context = text.partition("#")
    path = Path(name).expanduser()
    if not path.is_file():
        what = f"there is no file {quoted(name)}; name the kubeconfig of the cluster"
        raise InvalidArgument(what, reason="CLUSTER", path="--cluster")
    return KubernetesCluster(Kubeconfig(path, context), pool, rng=rng)
