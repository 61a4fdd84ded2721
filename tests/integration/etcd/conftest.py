from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.certificates import Certificates
from tests.services.etcd import EtcdServers, etcd_servers


@pytest.fixture
def three() -> Iterator[EtcdServers]:
    """A cluster of three members."""
    with etcd_servers(members=3) as servers:
        yield servers


@pytest.fixture
def one() -> Iterator[EtcdServers]:
    """A cluster of one member."""
    with etcd_servers() as servers:
        yield servers


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder: Path = tmp_path_factory.mktemp("certificates")
    return Certificates(folder)
