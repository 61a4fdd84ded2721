"""The one place that knows how production code is put together: a replica with its API, and an agent.

Everything else in the simulator speaks of processes that have a `run`, a `serve_link` and a `call`.
"""

from random import Random

from google.protobuf.message import Message

from hanse.bus.contract import Bus
from hanse.kit.clock import Clock
from hanse.model.ids import ReplicaId
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.scheduler.shell.session import AgentStream
from hanse.store.contract import Store


class ReplicaParts:
    """A replica and the API beside it, as one process has them."""

    def __init__(self, name: str, store: Store, bus: Bus | None, clock: Clock, rng: Random) -> None:
        config = ReplicaConfig(ReplicaId(name), federation="sim")
        self._replica = Replica(config, store, bus, clock, rng)

    async def run(self) -> None:
        """Until cancelled."""
        await self._replica.run()

    async def serve_link(self, stream: AgentStream) -> None:
        """One agent's stream."""
        await self._replica.serve_link(stream)

    async def call(self, method: str, request: Message) -> Message:
        """One call of the API."""
        raise NotImplementedError(method)
