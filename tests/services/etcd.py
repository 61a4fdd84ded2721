"""A real etcd of one or more members on the loopback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.etcd.v3 import rpc_pb2_grpc as rpc
from hanse.store.etcd import EtcdOptions
from tests.services.binaries import need
from tests.services.certificates import Certificates
from tests.services.process import ServerProcess, data_folder, free_ports

HEARTBEAT_MS: Final = 50
ELECTION_MS: Final = 500
"""Half of etcd's defaults, so that a killed leader is replaced sooner."""

STATUS_TIMEOUT_S: Final = 1.0


class EtcdServers:
    """Members of one cluster, by index."""

    def __init__(
        self, folder: Path, *, members: int = 1, flags: Sequence[str] = (), certificates: Certificates | None = None
    ) -> None:
        binary = str(need("etcd"))
        ports = free_ports(2 * members)
        scheme = "http" if certificates is None else "https"
        peers = ",".join(f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(ports[members:]))
        self.endpoints = tuple(f"127.0.0.1:{port}" for port in ports[:members])
        self.certificates = certificates
        self.members: list[ServerProcess] = []
        for n, (endpoint, peer_port) in enumerate(zip(self.endpoints, ports[members:], strict=True)):
            command = [
                *(binary, "--name", f"m{n}", "--data-dir", str(folder / f"m{n}")),
                *("--listen-client-urls", f"{scheme}://{endpoint}"),
                *("--advertise-client-urls", f"{scheme}://{endpoint}"),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer_port}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer_port}"),
                *("--initial-cluster", peers, "--initial-cluster-token", folder.name),
                *("--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS)),
                *("--logger", "zap", "--log-level", "warn"),
                *(() if certificates is None else certificates.etcd_flags()),
                *flags,
            ]
            member = ServerProcess(f"etcd-m{n}", command, folder, ready=lambda n=n: self._has_leader(n))  # type: ignore[misc]
            self.members.append(member)

    def options(self, *, user: str = "", password: str = "", only: int | None = None) -> EtcdOptions:
        """How to reach them, or one of them."""
        endpoints = self.endpoints if only is None else self.endpoints[only : only + 1]
        if self.certificates is None:
            return EtcdOptions(endpoints=endpoints, user=user, password=password)
        mine = self.certificates
        return EtcdOptions(
            endpoints=endpoints, ca=mine.ca, cert=mine.client_cert, key=mine.client_key, user=user, password=password
        )

    @property
    def url(self) -> str:
        return f"etcd://{','.join(self.endpoints)}"

    def start(self) -> None:
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait_ready()

    def stop(self) -> None:
        for member in self.members:
            member.kill()

    def channel(self, n: int = 0) -> grpc.Channel:
        """A blocking connection to one member, as an operator has it."""
        if self.certificates is None:
            return grpc.insecure_channel(self.endpoints[n])
        pem = self.options().credentials()
        assert pem is not None
        return grpc.secure_channel(self.endpoints[n], grpc.ssl_channel_credentials(*pem))

    def status(self, n: int) -> pb.StatusResponse:
        """What a member says about itself. Raises grpc.RpcError."""
        with self.channel(n) as channel:
            return rpc.MaintenanceStub(channel).Status(pb.StatusRequest(), timeout=STATUS_TIMEOUT_S)

    def leader(self) -> int:
        """Index of the leader, as the first member that answers knows it. Raises StopIteration if none does."""
        return next(n for n in range(len(self.members)) if self._leads(n))

    def _leads(self, n: int) -> bool:
        try:
            status = self.status(n)
        except grpc.RpcError:
            return False
        return status.leader == status.header.member_id

    def _has_leader(self, n: int) -> bool:
        try:
            return self.status(n).leader != 0
        except grpc.RpcError as error:
            # Newer servers tell their status only to those whom they know, and serve all the same.
            return "user name is empty" in str(error)


@contextmanager
def etcd_servers(
    *, members: int = 1, flags: Sequence[str] = (), certificates: Certificates | None = None
) -> Iterator[EtcdServers]:
    """Started, and stopped at the end."""
    with data_folder() as folder:
        servers = EtcdServers(folder, members=members, flags=flags, certificates=certificates)
        try:
            servers.start()
            yield servers
        finally:
            servers.stop()
