"""Leases over etcd. Each call may be repeated until its deadline: the number of a lease is ours, so granting it twice
grants it once, and a lease that is gone when we ask a second time to end it has been ended.

Keep-alives go over the connection of their own that ``member`` has for what must not wait.
"""

import math
import random

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.contract import WRITE_DEADLINE_S, LeaseGone
from hanse.store.etcd.cluster import Cluster
from hanse.store.etcd.faults import Failed, Fate
from hanse.store.etcd.member import Member
from hanse.store.etcd.tokens import Metadata

LEASE_BITS = 62


class Leases:
    """See ``contract.Store``. Every call raises Failed for what the contract has no word for."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng

    async def grant(self, ttl_s: float) -> int:
        request = pb.LeaseGrantRequest(TTL=math.ceil(ttl_s), ID=self._rng.getrandbits(LEASE_BITS) + 1)

        async def once(member: Member, timeout_s: float, metadata: Metadata) -> pb.LeaseGrantResponse:
            return await member.call(member.lease.LeaseGrant, request, timeout_s=timeout_s, metadata=metadata)

        try:
            await self._cluster.ask(once, WRITE_DEADLINE_S, repeat=True)
        except Failed as failed:
            if failed.fate is not Fate.LEASE_EXISTS:
                raise
        return request.ID

    async def keep_alive(self, lease: int) -> float:
        async def once(member: Member, timeout_s: float, metadata: Metadata) -> int:
            return await member.renew(lease, timeout_s=timeout_s, metadata=metadata)

        ttl_s = await self._cluster.ask(once, WRITE_DEADLINE_S, repeat=True, urgent=True)
        if ttl_s <= 0:
            raise LeaseGone(lease)
        return float(ttl_s)

    async def revoke(self, lease: int) -> None:
        tries = 0

        async def once(member: Member, timeout_s: float, metadata: Metadata) -> pb.LeaseRevokeResponse:
            nonlocal tries
            tries += 1
            request = pb.LeaseRevokeRequest(ID=lease)
            return await member.call(member.lease.LeaseRevoke, request, timeout_s=timeout_s, metadata=metadata)

        try:
            await self._cluster.ask(once, WRITE_DEADLINE_S, repeat=True)
        except Failed as failed:
            if failed.fate is not Fate.LEASE_GONE:
                raise
            if tries == 1:
                raise LeaseGone(lease) from None
