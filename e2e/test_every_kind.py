"""The same for the kinds whose controllers only `make e2e-all` builds."""

from collections.abc import Iterator

import pytest

from e2e.agreement import check_agrees, submit
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import APPWRAPPER, JOBSET, LWS, MPI_OPERATOR, RAY, TRAINER, TRAINING_OPERATOR, controllers

pytestmark = pytest.mark.every_kind


@pytest.fixture(scope="module")
def served() -> Iterator[ControlPlane]:
    wanted = [JOBSET, TRAINING_OPERATOR, MPI_OPERATOR, TRAINER, LWS, RAY, APPWRAPPER]
    with control_plane() as plane, controllers(plane, wanted):
        yield plane


@pytest.mark.parametrize("manifest", "mpi trainjob raycluster rayjob rayjob-hosts lws lws-alike appwrapper".split())
def test_pods_are_those_that_the_manifest_was_read_as(served: ControlPlane, manifest: str) -> None:
    check_agrees(submit(served, manifest))
