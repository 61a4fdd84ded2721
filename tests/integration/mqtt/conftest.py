from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.certificates import Certificates
from tests.services.mosquitto import Broker, mosquitto


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Keeps nothing over a restart."""
    with mosquitto() as started:
        yield started


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder: Path = tmp_path_factory.mktemp("certificates")
    return Certificates(folder)
