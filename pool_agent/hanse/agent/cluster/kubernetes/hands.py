"""Requests about pods and Services, throttled, each harmless when it is repeated.

A pod is changed and deleted by its uid, so that an object of the same name which is not the one that was seen stays
untouched. Only a Service's creation goes by name: what is there already is taken for ours if it is (see `names`), and
is a reason to refuse if it is not.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import (
    CONFLICT,
    JSON_PATCH,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    Api,
    Refused,
)
from hanse.agent.cluster.kubernetes.chores import Bind, Chore, Delete, LetGo, Remove
from hanse.agent.cluster.kubernetes.mirror import Kin
from hanse.agent.cluster.kubernetes.names import (
    ATTEMPT,
    FEDERATION,
    FINALIZER,
    JOB,
    OWN_SCHEDULER,
    PART,
    PodKey,
    gang_labels,
    own_service,
    service_name,
)
from hanse.agent.cluster.kubernetes.objects import PLAIN, POD, Body, Meta, PodObject, read
from hanse.agent.cluster.kubernetes.placing import patch_of
from hanse.agent.cluster.kubernetes.pods import Start, service
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.kubernetes.watching import list_all
from hanse.agent.cluster.port import GangKey
from hanse.model.ids import NodeName

log = logging.getLogger(__name__)

TRIES_MAX: Final = 4
_UNPROCESSABLE: Final = 422
_FORBIDDEN: Final = 403
_TIMED_OUT: Final = 408
_LATER: Final = frozenset({UNAUTHORIZED, _TIMED_OUT, CONFLICT, TOO_MANY_REQUESTS})
"""Refusals that say nothing about the object."""


class NotTaken(Exception):
    """The cluster will not take an object of ours, now or ever; the text is its reason."""


class NotYet(Exception):
    """The cluster may take it later."""


@dataclass(frozen=True, slots=True)
class Hands:
    """See the module."""

    api: Api
    throttle: Throttle

    # ---- creating -----------------------------------------------------------------------------------------

    async def create_namespace(self, name: str) -> None:
        """Raises NotTaken, NotYet, ClusterUnavailable."""
        try:
            await self._create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except Refused as refused:
            unless_there(refused)

    async def create_service(self, start: Start) -> None:
        """Raises NotTaken, NotYet, ClusterUnavailable."""
        folder = f"/api/v1/namespaces/{start.namespace}/services"
        try:
            await self._create(folder, service(start))
        except Refused as refused:
            unless_there(refused)
            found = read(PLAIN, await self._read(f"{folder}/{service_name(start.key)}"))
            if found.metadata.labels.get(FEDERATION) != start.federation:
                what = f"service {service_name(start.key)} is there already, and it is not ours; rename or remove it"
                raise NotTaken(what) from None

    async def try_pods(self, start: Start, specs: Iterable[Body]) -> None:
        """Whether the cluster would take such pods, as far as one of each kind tells.

        Raises:
            NotTaken, NotYet, ClusterUnavailable
        """
        folder = f"/api/v1/namespaces/{start.namespace}/pods"
        for spec in specs:
            labels = gang_labels(start.key, federation=start.federation, pool=start.pool)
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "hanse-", "labels": labels}}
            try:
                async with self.throttle:
                    await self.api.post(folder, {**body, "spec": spec}, trial=True)
            except Refused as refused:
                unless_there(refused)

    async def _create(self, folder: str, body: Body) -> bytes:
        async with self.throttle:
            return await self.api.post(folder, body)

    async def _read(self, path: str) -> bytes:
        try:
            async with self.throttle:
                return await self.api.get(path)
        except Refused as refused:
            raise NotYet(str(refused)) from None

    # ---- chores -------------------------------------------------------------------------------------------

    async def do(self, chore: Chore) -> None:
        """Do it; what is gone or has changed meanwhile is looked at again when the watch tells of it.

        Raises:
            NotYet: the cluster would not do it now.
            ClusterUnavailable: nobody knows.
        """
        try:
            match chore:
                case Delete(one, grace_s):
                    await self._delete(one, grace_s)
                case Remove(one):
                    await self._remove(one)
                case LetGo(one):
                    async with self.throttle:
                        await self.api.patch(
                            _path(one.namespace, one.name), patch_of(chore), form=JSON_PATCH, brief=True
                        )
                    if one.scheduler == OWN_SCHEDULER:
                        await self._bind(one, chore.node)
                case Bind(one, node):
                    await self._bind(one, node)
        except Refused as refused:
            if refused.code not in (NOT_FOUND, CONFLICT, _UNPROCESSABLE):
                raise NotYet(f"pod {chore.pod.name}: {refused}") from None

    async def _bind(self, one: OwnPod, node: NodeName) -> None:
        """What is bound already is a conflict, and so is a pod that is not the one that was seen."""
        body: Body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": one.name, "uid": one.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        async with self.throttle:
            await self.api.post(f"{_path(one.namespace, one.name)}/binding", body)

    async def _delete(self, one: OwnPod, grace_s: int) -> Meta:
        """What remains of it; nothing has no uid."""
        body: Body = {"gracePeriodSeconds": max(0, grace_s), "preconditions": {"uid": one.uid}}
        async with self.throttle:
            return read(PLAIN, await self.api.delete(_path(one.namespace, one.name), body)).metadata

    async def _remove(self, one: OwnPod) -> None:
        """Deleted first: without its finalizer a pod that is still to run would be free of us."""
        rest = await self._delete(one, 0)
        path = _path(one.namespace, one.name)
        for _ in range(TRIES_MAX):
            if rest.uid != one.uid or FINALIZER not in rest.finalizers:
                return
            kept = [name for name in rest.finalizers if name != FINALIZER]
            body = {"metadata": {"uid": one.uid, "resourceVersion": rest.resource_version, "finalizers": kept}}
            try:
                async with self.throttle:
                    await self.api.patch(path, body, brief=True)
                return
            except Refused as refused:
                if refused.code != CONFLICT:
                    raise
            async with self.throttle:
                rest = read(PLAIN, await self.api.get(path)).metadata
        raise NotYet(f"pod {one.name} changes all the time")

    async def remove_service(self, key: GangKey, namespace: str, federation: str) -> None:
        """Remove a gang's Service if it is ours; there may be none. Raises NotYet, ClusterUnavailable."""
        path = f"/api/v1/namespaces/{namespace}/services/{service_name(key)}"
        try:
            async with self.throttle:
                meta = read(PLAIN, await self.api.get(path)).metadata
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise NotYet(f"service {service_name(key)}: {refused}") from None
            return
        if meta.labels.get(FEDERATION) == federation:
            await self.delete_service(meta)

    async def delete_service(self, meta: Meta) -> None:
        """Delete a Service as it was seen; it may be gone. Raises NotYet, ClusterUnavailable."""
        path = f"/api/v1/namespaces/{meta.namespace}/services/{meta.name}"
        try:
            async with self.throttle:
                await self.api.delete(path, {"preconditions": {"uid": meta.uid}})
        except Refused as refused:
            if refused.code not in (NOT_FOUND, CONFLICT):
                raise NotYet(f"service {meta.name}: {refused}") from None

    # ---- looking ------------------------------------------------------------------------------------------

    async def pods_of(self, key: GangKey, federation: str, kin: Kin) -> list[tuple[PodKey, PodObject]]:
        """The pods of a gang as they are now, of those that controllers make the ones that have a place.

        Raises:
            ClusterUnavailable
        """
        labels = {FEDERATION: federation, JOB: key.job, ATTEMPT: str(key.attempt), PART: str(key.part)}
        own: dict[str, tuple[PodKey, PodObject]] = {}

        def take(item: msgspec.Raw) -> None:
            one = read(POD, item)
            pod_key = kin(one.metadata)
            if isinstance(pod_key, PodKey) and pod_key.rank >= 0:
                own[one.metadata.uid] = pod_key, one

        await list_all(self.api, "/api/v1/pods", take, {"labelSelector": _selector(labels)})
        return sorted(own.values(), key=lambda item: item[0])

    async def services(self, federation: str) -> list[tuple[GangKey, Meta]]:
        """The Services of all our gangs. Raises ClusterUnavailable."""
        own: dict[str, tuple[GangKey, Meta]] = {}

        def take(item: msgspec.Raw) -> None:
            meta = read(PLAIN, item).metadata
            key = own_service(meta, federation)
            if key is not None:
                own[meta.uid] = key, meta

        await list_all(self.api, "/api/v1/services", take, {"labelSelector": _selector({FEDERATION: federation})})
        return list(own.values())


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def unless_there(refused: Refused) -> None:
    """What a refused creation means, unless the object is there already. Raises NotTaken, NotYet."""
    if refused.code == CONFLICT and refused.reason == "AlreadyExists":
        return
    if refused.code in _LATER or (refused.code == _FORBIDDEN and _is_unfinished(str(refused))):
        raise NotYet(str(refused)) from refused
    raise NotTaken(str(refused)) from refused


def _is_unfinished(said: str) -> bool:
    """Whether controllers still have to make what a namespace needs: its service account, the count of a quota."""
    return "serviceaccount" in said.replace(" ", "") or "status unknown for quota" in said
