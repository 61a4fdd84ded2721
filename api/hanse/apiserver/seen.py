"""What of pools, explanations and the federation's standing a tenant is told. Pure.

A tenant, who has roles in some queues only, sees the pools that have a flavor which those queues may use: what they
are, how they are, what is free there, and why an operator has closed them; without what others do there. Nodes are
told of the own placement alone, replicas and roots not at all, since a root is a queue or a cohort. Whoever views
the federation sees everything.
"""

from collections.abc import Iterable
from dataclasses import replace

from hanse.api.v1 import server_service_pb2 as pb
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.ports import Explanation, PoolView
from hanse.model.ids import PoolName


def sees_all(access: Access) -> bool:
    """Whether nothing of the federation is left out."""
    return access.may(Verb.VIEW_FEDERATION)


def seen_pools(access: Access, views: Iterable[PoolView]) -> list[PoolView]:
    """The pools that a caller sees, as they are told of them."""
    if sees_all(access):
        return list(views)
    return [_told(access, view) for view in views if sees_pool(access, view)]


def sees_pool(access: Access, view: PoolView) -> bool:
    """Whether a caller sees a pool; one that has not told its flavors yet is seen by all."""
    return sees_all(access) or not view.flavors or any(access.sees_flavor(one.name) for one in view.flavors)


def hidden_pools(access: Access, views: Iterable[PoolView]) -> frozenset[PoolName]:
    """The names of the pools that a caller does not see."""
    return frozenset(view.name for view in views if not sees_pool(access, view))


def _told(access: Access, view: PoolView) -> PoolView:
    flavors = tuple(one for one in view.flavors if access.sees_flavor(one.name))
    return replace(
        view,
        flavors=flavors,
        nodes=sum(one.nodes for one in flavors),
        gpus=sum(one.gpus for one in flavors),
        free_gpus=sum(one.free_gpus for one in flavors),
        free_whole_hosts=sum(one.free_whole_hosts for one in flavors),
        unusable_nodes=0,
        gangs=0,
        held_gangs=0,
        stopping_gangs=0,
        shape=view.shape if len(flavors) == len(view.flavors) else None,
        largest_whole=view.largest_whole if len(flavors) == len(view.flavors) else None,
    )


def seen_by(answer: Explanation, hidden: Iterable[PoolName]) -> Explanation:
    """An explanation without the pools that its reader does not see; their names are `hidden`."""
    names = set[str](hidden)
    if not names:
        return answer
    pools = tuple(one for one in answer.pools if one.pool not in names or one.chosen)
    helps = tuple(one for one in answer.helps if not names & set(_words(f"{one.change} {one.effect}")))
    return replace(answer, pools=pools, helps=helps)


def _words(text: str) -> Iterable[str]:
    return (word.strip(",.;:()\"'") for part in text.split() for word in part.split("/"))


def seen_server(access: Access, info: pb.ServerInfo) -> pb.ServerInfo:
    """A server without the addresses of the others."""
    if not sees_all(access):
        info.ClearField("replicas")
    return info


def seen_status(access: Access, status: pb.FederationStatus, pools: Iterable[PoolView]) -> pb.FederationStatus:
    """How the federation is, as far as it concerns the pools that a caller sees."""
    if sees_all(access):
        return status
    names = {view.name for view in pools if sees_pool(access, view)}
    told = pb.FederationStatus(server=seen_server(access, status.server))
    for one in status.pools:
        if one.name in names:
            told.pools.add(name=one.name, state=one.state, summary_age_ms=one.summary_age_ms)
            if one.state not in ("healthy", "cordoned"):
                told.degraded.append(f"pool {one.name} is {one.state}")
    return told
