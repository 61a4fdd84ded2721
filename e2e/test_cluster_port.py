"""The cluster port's contract suite on a real API server: the very tests that the simulated clusters pass."""

from tests.contract.cluster_port.test_beside import *  # noqa: F403
from tests.contract.cluster_port.test_claims import *  # noqa: F403
from tests.contract.cluster_port.test_commands import *  # noqa: F403
from tests.contract.cluster_port.test_gangs import *  # noqa: F403
from tests.contract.cluster_port.test_nodes import *  # noqa: F403
from tests.contract.cluster_port.test_objects import *  # noqa: F403
from tests.contract.cluster_port.test_restarts import *  # noqa: F403
from tests.contract.cluster_port.test_watches import *  # noqa: F403
