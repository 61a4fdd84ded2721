"""Which pods belong to a gang that a controller makes: by uid, up the chain of controllers to an object of ours.

Labels prove nothing: a template hands them on, and so does whoever copies a pod. A pod is a gang's if its labels name
the gang, and it was let go (its uid is in the gang's record), or is an object of the gang itself, or the chain of its
controllers ends at one. Makers on the way (the Jobs of a JobSet, the StatefulSets of a LeaderWorkerSet) are looked
up once, by name, and count only with the uid that the pod says.
"""

import logging
import re
from collections.abc import Iterable
from typing import Final

from hanse.agent.cluster.kubernetes.api import NOT_FOUND, Api, Refused
from hanse.agent.cluster.kubernetes.kinds import folder_of
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.mirror import UNKNOWN, Unknown
from hanse.agent.cluster.kubernetes.names import PodKey, claimed_gang, own_root
from hanse.agent.cluster.kubernetes.objects import PLAIN, Meta, OwnerReference, PodObject, read
from hanse.agent.cluster.kubernetes.spread import spread
from hanse.agent.cluster.kubernetes.watching import FORBIDDEN
from hanse.agent.cluster.port import ClusterUnavailable, GangKey

log = logging.getLogger(__name__)

DEPTH_MAX: Final = 8
MAKERS_REMEMBERED: Final = 50_000
AT_ONCE: Final = 16
_WORD: Final = re.compile(r"[A-Za-z0-9.-]+(/[A-Za-z0-9]+)?")
NOT_LET_GO: Final = -1
"""Rank of a pod that has no place (yet)."""


class Families:
    """See the module."""

    def __init__(self, api: Api, ledgers: Ledgers) -> None:
        self._api = api
        self._ledgers = ledgers
        self._makers: dict[str, GangKey | None] = {}

    def kin(self, meta: Meta) -> PodKey | Unknown | None:
        """Whose pod that is, as far as is known."""
        key = claimed_gang(meta, self._ledgers.claim.federation)
        if key is None:
            return None
        stored = self._ledgers.get(key)
        if stored is not None and (at := stored.place_of(meta.uid)) is not None:
            held = stored.record.sets[at[0]]
            return PodKey(key, held.name, held.first_rank + at[1])
        roots = {root.uid for root in stored.roots} if stored is not None else set()
        if meta.uid in roots:
            return PodKey(key, "", NOT_LET_GO)
        maker = meta.controller
        if maker is None:
            alone = own_root(meta, self._ledgers.claim.federation)
            return PodKey(key, "", NOT_LET_GO) if alone == key and not roots else None
        if maker.uid in roots:
            return PodKey(key, "", NOT_LET_GO)
        if maker.uid not in self._makers:
            return UNKNOWN
        return PodKey(key, "", NOT_LET_GO) if self._makers[maker.uid] == key else None

    async def resolve(self, pods: Iterable[PodObject]) -> None:
        """Find out whose these are. Raises ClusterUnavailable."""
        makers = {(pod.metadata.namespace, pod.metadata.controller) for pod in pods}

        async def one(which: tuple[str, OwnerReference | None]) -> None:
            namespace, maker = which
            if maker is not None and maker.uid not in self._makers:
                await self._climb(namespace, maker)

        await spread(makers, one, at_once=AT_ONCE)

    async def _climb(self, namespace: str, maker: OwnerReference) -> None:
        passed: list[str] = []
        found: GangKey | None = None
        at: OwnerReference | None = maker
        while at is not None and len(passed) < DEPTH_MAX:
            passed.append(at.uid)
            if at.uid in self._makers:
                found = self._makers[at.uid]
                break
            meta = await self._look(namespace, at)
            if meta is None:
                break
            found = self._root(meta)
            at = None if found is not None else meta.controller
        for uid in passed:
            self._makers[uid] = found
        while len(self._makers) > MAKERS_REMEMBERED:
            del self._makers[next(iter(self._makers))]

    def _root(self, meta: Meta) -> GangKey | None:
        """Whose object that is. One that a record does not name although it names others is not its gang's."""
        key = own_root(meta, self._ledgers.claim.federation)
        stored = self._ledgers.get(key) if key is not None else None
        if stored is not None and stored.roots and meta.uid not in {root.uid for root in stored.roots}:
            return None
        return key

    async def _look(self, namespace: str, at: OwnerReference) -> Meta | None:
        if not (_WORD.fullmatch(at.kind) and _WORD.fullmatch(at.api_version)):
            return None  # nothing that an API server serves is called so
        path = f"{folder_of(at.api_version, at.kind, namespace)}/{at.name}"
        try:
            meta = read(PLAIN, await self._api.get(path)).metadata
        except Refused as refused:
            if refused.code == FORBIDDEN:
                log.warning("maker_unreadable", extra={"path": path, "cause": str(refused)})
            elif refused.code != NOT_FOUND:
                raise ClusterUnavailable(f"{path}, which makes pods of ours, cannot be read: {refused}") from None
            return None
        return meta if meta.uid == at.uid else None
