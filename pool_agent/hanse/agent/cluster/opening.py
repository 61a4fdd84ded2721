"""Opens the port to a cluster from the text by which people name it.

    sim:HOST:PORT             a simulated cluster of that server, by the pool's name
    kubeconfig:PATH           a real one, as `kubectl` would reach it; PATH#CONTEXT names a context of the file
    in-cluster                the one in which this process runs as a pod

Each adapter is imported when it is asked for: the client of real clusters costs a second to load.
"""

from pathlib import Path
from random import Random
from typing import Final, Protocol

from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.port import ClusterPort
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

KINDS: Final = "sim:HOST:PORT, kubeconfig:PATH[#CONTEXT] or in-cluster"


class OpenCluster(ClusterPort, Protocol):
    """A port that somebody opened, and closes."""

    async def close(self) -> None:
        """Let go of it; what runs in the cluster runs on."""
        ...


def open_cluster(
    spec: str, pool: str, rng: Random | None = None, *, settings: KubernetesSettings | None = None
) -> OpenCluster:
    """The cluster that a text names; it is connected to when it is first used. Needs a running event loop.

    Args:
        rng: draws the pauses between tries.
        settings: of the adapter to a real cluster.

    Raises:
        InvalidArgument: the text names none, or its file is not there.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "sim" if rest:
            from hanse.agent.cluster.simulated_grpc import GrpcCluster

            return GrpcCluster(rest, pool)
        case "kubeconfig" if rest:
            return _real(rest, pool, rng, settings)
        case "in-cluster" if not rest:
            return _real("", pool, rng, settings)
        case _:
            raise InvalidArgument(f"{quoted(spec)} is no cluster; write {KINDS}", reason="CLUSTER", path="--cluster")


def _real(kubeconfig: str, pool: str, rng: Random | None, settings: KubernetesSettings | None) -> OpenCluster:
    """By PATH[#CONTEXT], or by the credentials of this pod if it is ""."""
    from hanse.agent.cluster.kubernetes.api import InCluster, Kubeconfig
    from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster

    if not kubeconfig:
        return KubernetesCluster(InCluster(), pool, settings, rng)
    name, _, context = kubeconfig.partition("#")
    path = Path(name).expanduser()
    if not path.is_file():
        what = f"there is no file {quoted(name)}; name the kubeconfig of the cluster"
        raise InvalidArgument(what, reason="CLUSTER", path="--cluster")
    return KubernetesCluster(Kubeconfig(path, context), pool, settings, rng)
