"""Who should never be listened to: agents that are not the pool's, and replicas that are not the federation's.

Scripts, not processes of the product. A federation meets them when somebody copies a configuration, restores the
wrong disk, or names the wrong server. The product must send them away by itself; what would happen if it did not is
worked out by the other checkers, or said here at once: a welcome for such an agent, and a claim of a cluster by an
epoch that the store never granted.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hanse.kit.stream import Stream, StreamClosed
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Hello, Refusal, Welcome
from hanse.model.desired import Desired
from hanse.model.fence import Epoch
from hanse.model.ids import PoolName, ReplicaId
from hanse.wire.link import LINK_VERSION, from_agent, from_replica, to_agent, to_replica
from tests.sim.fleet import LEVELS
from tests.sim.parts import FEDERATION

if TYPE_CHECKING:
    from tests.sim.world import PoolSite, World

OTHER: Final = "elsewhere"
FAR: Final = 10**12
"""A revision that no store of a simulation reaches."""

ANSWER_MAX_S: Final = 20.0

Near = Stream[pb.AttachRequest, pb.AttachResponse]
Far = Stream[pb.AttachResponse, pb.AttachRequest]

AGENTS: Final[dict[str, Callable[[Hello, int], Hello]]] = {
    "of another federation": lambda hello, life: replace(hello, federation=OTHER),
    "that has seen a later life of the store": lambda hello, life: replace(hello, epoch=Epoch(life + 1, 1)),
    "of another version": lambda hello, life: replace(hello, version=LINK_VERSION + 1),
    "of another cluster": lambda hello, life: replace(hello, cluster_uid="cluster-elsewhere"),
    "without a proper name": lambda hello, life: replace(hello, pool=PoolName("A pool/with a name")),
}
"""By what is wrong with it, what it says instead of the pool's own agent, in this life of the store."""

REPLICAS: Final[dict[str, Callable[[Epoch], tuple[str, Epoch]]]] = {
    "of another federation": lambda epoch: (OTHER, Epoch(epoch.incarnation, FAR)),
    "of an older life of the store": lambda epoch: (FEDERATION, Epoch(epoch.incarnation - 1, FAR)),
    "that grants what was granted before": lambda epoch: (FEDERATION, epoch),
}
"""By what is wrong with it, the federation and the epoch by which it welcomes an agent that has this epoch."""


async def agent(world: "World", site: "PoolSite", near: Near, wrong: str) -> None:
    """Say hello as an agent of that cluster would, but for what is wrong; a welcome is a violation."""
    claim = site.engine.claim
    if not claim.federation or site.name not in world.view.configs:
        return  # nothing is known of the pool yet that could be wrong
    era = world.store.era
    proper = Hello(
        version=LINK_VERSION,
        pool=site.name,
        instance=f"stranger-{world.rng.getrandbits(32):08x}",
        cluster_uid=site.engine.uid,
        federation=claim.federation,
        epoch=Epoch(claim.epoch.incarnation, claim.epoch.revision),
        accepted_revision=claim.accepted_revision,
        levels=LEVELS,
    )
    try:
        async with asyncio.timeout(ANSWER_MAX_S):
            await near.send(to_replica(AGENTS[wrong](proper, world.view.incarnation)))
            answer: Any = from_replica(await near.receive())  # Any: whatever a replica may say
    except (StreamClosed, TimeoutError):
        return
    finally:
        near.close()
    world.note(f"an agent {wrong} hears {answer}", site.name)
    if not isinstance(answer, Refusal) and era == world.store.era:
        world.court.accuse("S4", f"an agent {wrong} was attached as {site.name}", site.name)


async def replica(world: "World", site: "PoolSite", far: Far, wrong: str) -> None:
    """Welcome an agent, and tell it that nothing is desired of it any more."""
    try:
        async with asyncio.timeout(ANSWER_MAX_S):
            hello = from_agent(await far.receive())
            if not isinstance(hello, Hello) or not hello.federation:
                return  # a cluster that belongs to nobody yet is anybody's
            federation, epoch = REPLICAS[wrong](hello.epoch)
            world.note(f"a replica {wrong} welcomes the agent of {site.name} with epoch {epoch}", site.name)
            await far.send(to_agent(Welcome(epoch, federation, ReplicaId("stranger"))))
            await far.send(to_agent(Desired(epoch, FAR, complete_begin=True, complete_end=True)))
            while True:
                await far.receive()
    except (StreamClosed, TimeoutError):
        return
    finally:
        far.close()
