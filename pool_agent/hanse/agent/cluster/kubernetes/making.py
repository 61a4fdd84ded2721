"""Requests about the objects whose controllers make pods: created once, and gone when the gang is forgotten.

An object is created under the name that it has from its user. One that is there already is taken for ours only if it
carries this very gang's labels and its own name in our annotation: then an earlier try made it. What an older attempt
left is waited for, and anything else is a reason to refuse. Objects are changed and deleted by their uid.

They go in the foreground: the cluster's own collector ends what they own first, and our finalizer keeps the object
itself, with what it says of its end, until the gang is forgotten.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hanse.agent.cluster.kubernetes.adapting import RUNTIME
from hanse.agent.cluster.kubernetes.api import CONFLICT, NOT_FOUND, Refused
from hanse.agent.cluster.kubernetes.hands import TRIES_MAX, Hands, NotTaken, NotYet, unless_there
from hanse.agent.cluster.kubernetes.kinds import KNOWN, folder_of
from hanse.agent.cluster.kubernetes.names import FEDERATION, FINALIZER, POD_SET, own_root
from hanse.agent.cluster.kubernetes.objects import EVENTS, ROOT, Body, Meta, RootObject, read
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.stored import Root
from hanse.agent.cluster.kubernetes.watching import is_served, list_all
from hanse.agent.cluster.port import GangKey

COMPLAINTS_MAX: Final = 500
COMPLAINT_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Making:
    """See the module."""

    hands: Hands

    async def create(self, start: Start, body: Body) -> tuple[Root, RootObject]:
        """One object of a gang, new or as an earlier try left it. Raises NotTaken, NotYet, ClusterUnavailable."""
        version, kind, name = body["apiVersion"], body["kind"], body["metadata"]["name"]
        folder = folder_of(version, kind, start.namespace)
        try:
            async with self.hands.throttle:
                found = read(ROOT, await self.hands.api.post(folder, body))
        except Refused as refused:
            if refused.code == NOT_FOUND and start.namespace not in str(refused):
                what = f"the cluster has no {kind} of {version}; install what serves it, or keep the job away"
                raise NotTaken(what) from None
            unless_there(refused)
            found = await self._present(start, kind, f"{folder}/{name}")
        made = Root(version, kind, name, found.metadata.uid, body["metadata"]["labels"].get(POD_SET, ""))
        return made, found

    async def _present(self, start: Start, kind: str, path: str) -> RootObject:
        """What has the name already, if it is this gang's."""
        try:
            async with self.hands.throttle:
                found = read(ROOT, await self.hands.api.get(path))
        except Refused as refused:
            raise NotYet(f"{path}: {refused}") from None
        meta = found.metadata
        owner = own_root(meta, start.federation)
        what = f"{kind} {meta.name} in namespace {meta.namespace}"
        if owner is None:
            raise NotTaken(f"{what} is there already, and it is not ours; rename or remove it")
        if owner.job == start.key.job and owner != start.key:
            raise NotYet(f"{what} of an earlier attempt is still going")
        if owner != start.key:
            raise NotTaken(f"{what} belongs to job {owner.job}, which is not over; give this job another name")
        if meta.deletion_timestamp:
            raise NotYet(f"{what} of an earlier start is still going")
        return found

    async def delete(self, namespace: str, root: Root) -> None:
        """Tell it to go; our finalizer keeps it. Raises NotYet, ClusterUnavailable."""
        path = f"{folder_of(root.api_version, root.kind, namespace)}/{root.name}"
        body: Body = {"propagationPolicy": "Foreground", "preconditions": {"uid": root.uid}}
        try:
            async with self.hands.throttle:
                await self.hands.api.delete(path, body)
        except Refused as refused:
            if refused.code not in (NOT_FOUND, CONFLICT):
                raise NotYet(f"{root}: {refused}") from None

    async def release(self, namespace: str, root: Root) -> None:
        """Let nothing of ours keep it; it was told to go. Raises NotYet, ClusterUnavailable."""
        path = f"{folder_of(root.api_version, root.kind, namespace)}/{root.name}"
        try:
            for _ in range(TRIES_MAX):
                meta = await self._meta(path)
                if meta.uid != root.uid or FINALIZER not in meta.finalizers:
                    return
                kept = [name for name in meta.finalizers if name != FINALIZER]
                body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": kept}}
                try:
                    async with self.hands.throttle:
                        await self.hands.api.patch(path, body, brief=True)
                    return
                except Refused as refused:
                    if refused.code != CONFLICT:
                        raise
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return
            raise NotYet(f"{root}: {refused}") from None
        raise NotYet(f"{root} changes all the time")

    async def _meta(self, path: str) -> Meta:
        async with self.hands.throttle:
            return read(ROOT, await self.hands.api.get(path)).metadata

    async def all(self, federation: str, kinds: Iterable[tuple[str, str]] = KNOWN) -> list[tuple[GangKey, str, Root]]:
        """Every object of ours, with its gang and namespace; of kinds that the server has and lets us see.

        Raises:
            ClusterUnavailable
        """
        found: dict[str, tuple[GangKey, str, Root]] = {}
        for version, kind in (*kinds, *((v, RUNTIME) for v, k in kinds if k == "TrainJob")):
            folder = folder_of(version, kind)
            if await is_served(self.hands.api, folder):
                continue

            def take(item: Any, version: str = version, kind: str = kind) -> None:
                meta = read(ROOT, item).metadata
                key = own_root(meta, federation)
                if key is not None:
                    found[meta.uid] = key, meta.namespace, Root(version, kind, meta.name, meta.uid)

            await list_all(self.hands.api, folder, take, {"labelSelector": f"{FEDERATION}={federation}"})
        return list(found.values())

    async def complaint(self, namespace: str, roots: Iterable[Root]) -> str:
        """Why the controllers of these could not make a pod, in the server's words; "" if nobody says. Raises
        ClusterUnavailable."""
        names = tuple(root.name for root in roots)
        query = {"fieldSelector": "reason=FailedCreate", "limit": str(COMPLAINTS_MAX)}
        try:
            async with self.hands.throttle:
                found = read(EVENTS, await self.hands.api.get(f"/api/v1/namespaces/{namespace}/events", query))
        except Refused:
            return ""
        ours = [event.message for event in found.items or () if event.involved_object.name.startswith(names)]
        return " ".join(ours[-1].split())[:COMPLAINT_CHARS_MAX] if ours else ""
