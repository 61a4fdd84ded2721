"""What etcd's errors make certain. Whatever is not certain is unsure."""

import pytest

from hanse.store.etcd.faults import Fate, fate_of, plain

FATES = {
    "etcdserver: no leader": Fate.NOT_DONE,
    "raft proposal dropped": Fate.NOT_DONE,
    "etcdserver: too many requests": Fate.NOT_DONE,
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused": Fate.NOT_DONE,
    "etcdserver: invalid auth token": Fate.NOT_KNOWN_TO,
    "etcdserver: user name is empty": Fate.NOT_KNOWN_TO,
    "etcdserver: revision of auth store is old": Fate.NOT_KNOWN_TO,
    "etcdserver: permission denied": Fate.DENIED,
    "etcdserver: authentication failed, invalid user ID or password": Fate.DENIED,
    "etcdserver: mvcc: required revision has been compacted": Fate.COMPACTED,
    "etcdserver: mvcc: required revision is a future revision": Fate.FUTURE,
    "etcdserver: requested lease not found": Fate.LEASE_GONE,
    "etcdserver: lease already exists": Fate.LEASE_EXISTS,
    "etcdserver: mvcc: database space exceeded": Fate.FULL,
    "etcdserver: request is too large": Fate.TOO_LARGE,
    "CLIENT: Received message larger than max (67108865 vs. 67108864)": Fate.TOO_LARGE,
    "etcdserver: request timed out": Fate.UNSURE,
    "etcdserver: request timed out, possibly due to previous leader failure": Fate.UNSURE,
    "etcdserver: leader changed": Fate.UNSURE,
    "etcdserver: server stopped": Fate.UNSURE,
    "context deadline exceeded": Fate.UNSURE,
    "Deadline Exceeded": Fate.UNSURE,
    "Socket closed": Fate.UNSURE,
    "recvmsg:Connection reset by peer": Fate.UNSURE,
    "something that nobody has seen yet": Fate.UNSURE,
    "": Fate.UNSURE,
}


@pytest.mark.parametrize("details", FATES)
def test_a_text_makes_certain(details: str) -> None:
    assert fate_of(details) is FATES[details]


def test_a_text_for_people_is_one_line_without_noise() -> None:
    told = plain(
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:1:\n Connection refused (111)"
    )
    assert told == "ipv4:1.2.3.4:1: Connection refused (111)"
