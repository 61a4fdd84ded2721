"""Pure: what is certain about a request that failed.

etcd tells its errors by text; the codes are too coarse (a lost leader, a timed out proposal and a closed socket are
all UNAVAILABLE), and a short deadline comes back as UNKNOWN. So the text decides, and a text that is not known means
the worst: the request may have been done, or may still be.

What follows from each was read in etcd's source: errors of the server's interceptors, of its quota check and of its
authentication come before a request is proposed or in place of applying it. A proposal that timed out, or whose
server stopped, may be in the log. Out of space is special: usually it is said before the proposal, but when the quota
is crossed while a transaction is applied, etcd applies it *and* answers out of space.
"""

from enum import Enum
from typing import Final


class Fate(Enum):
    """What is certain about a request that failed."""

    NOT_DONE = "not done: another member or a later moment may take it"
    NOT_KNOWN_TO = "not done: the token is not accepted (any more)"
    DENIED = "not done: this user may not do it"
    TOO_LARGE = "not done: it breaks a limit of the server"
    COMPACTED = "not done: that history is gone"
    FUTURE = "not done: the store is not there yet"
    LEASE_GONE = "not done: there is no such lease"
    LEASE_EXISTS = "not done: there is such a lease already"
    FULL = "out of space: not done, or just done"
    UNSURE = "may have been done, or may still be"


_FATES: Final = (
    ("required revision has been compacted", Fate.COMPACTED),
    ("required revision is a future revision", Fate.FUTURE),
    ("requested lease not found", Fate.LEASE_GONE),
    ("lease already exists", Fate.LEASE_EXISTS),
    ("database space exceeded", Fate.FULL),
    ("invalid auth token", Fate.NOT_KNOWN_TO),
    ("user name is empty", Fate.NOT_KNOWN_TO),
    ("revision of auth store is old", Fate.NOT_KNOWN_TO),
    ("auth: revision in header is old", Fate.NOT_KNOWN_TO),
    ("permission denied", Fate.DENIED),
    ("authentication failed", Fate.DENIED),
    ("corrupt cluster", Fate.DENIED),
    ("request is too large", Fate.TOO_LARGE),
    ("too many operations in txn request", Fate.TOO_LARGE),
    ("larger than max", Fate.TOO_LARGE),
    ("etcdserver: no leader", Fate.NOT_DONE),
    ("etcdserver: not capable", Fate.NOT_DONE),
    ("raft proposal dropped", Fate.NOT_DONE),
    ("too many requests", Fate.NOT_DONE),
    ("not supported for learner", Fate.NOT_DONE),
    ("failed to connect to all addresses", Fate.NOT_DONE),
)


class Failed(Exception):
    """A request to one member that failed; stays inside this package."""

    def __init__(self, fate: Fate, cause: str) -> None:
        super().__init__(cause)
        self.fate = fate
        self.cause = " ".join(cause.split())


def fate_of(details: str) -> Fate:
    """What the text of an error makes certain."""
    return next((fate for text, fate in _FATES if text in details), Fate.UNSURE)


def plain(details: str) -> str:
    """An error's text for people: one line, without what repeats itself."""
    text = " ".join(details.split())
    for noise in ("failed to connect to all addresses; last error: ", "UNKNOWN: ", "UNAVAILABLE: "):
        text = text.replace(noise, "")
    return text
