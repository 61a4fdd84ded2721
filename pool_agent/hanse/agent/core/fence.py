"""What an agent may believe: the rules by which a welcome and a desired set are accepted or refused.

The fence is what the cluster remembers (`Claim`): federation, epoch, accepted revision. An attachment passes it in
three steps: the granted epoch must be newer than the claimed one; a *complete* set must arrive, all of one revision,
which within one incarnation of the store is not older than what was accepted before (S4); then the shell claims the
cluster with both (P8). From there on changes must not go back in time. A change may come in several messages, and
only the last one carries its revision: a complete set that is older than any binding told so far would take back what
the first ones said, so it is refused too.

Only an *older* incarnation is refused (P15); a newer one may count its revisions from anywhere, since it is the same
federation restored from a backup. What a message says of that (`recovering`) goes through as it is.

A violation is never repaired by guessing which half of it is right. It is a value (`Breach`), the shell logs it
loudly, ends the stream and attaches anew.
"""

from dataclasses import dataclass
from typing import Final

from hanse.agent.core.records import Claim
from hanse.model.attach import Welcome
from hanse.model.desired import Binding, Desired
from hanse.model.fence import Epoch, GangKey

DESIRED_SET_BINDINGS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class Breach:
    """Why something is refused: a code, and one line for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CompleteSet:
    """A whole desired set that passed the fence."""

    revision: int
    bindings: tuple[Binding, ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A change to the accepted set."""

    revision: int
    bindings: tuple[Binding, ...]
    removed: tuple[GangKey, ...]
    recovering: bool = False


def check_welcome(claim: Claim, welcome: Welcome) -> Breach | None:
    """Whether an attachment under this epoch may be used with a cluster that is claimed like that."""
    if claim.federation and claim.federation != welcome.federation:
        return Breach(
            "OTHER_FEDERATION",
            f"the cluster belongs to federation {claim.federation}, the replica to {welcome.federation}; "
            "connect the agent to its own federation, or clear the claim in the cluster",
        )
    if welcome.epoch.incarnation < claim.epoch.incarnation:
        return Breach(
            "OLDER_INCARNATION",
            f"the replica's store is of incarnation {welcome.epoch.incarnation}, the cluster has accepted "
            f"{claim.epoch.incarnation}; raise the incarnation of the restored store",
        )
    if welcome.epoch <= claim.epoch:
        return Breach(
            "OLDER_EPOCH",
            f"granted epoch {_shown(welcome.epoch)} is not newer than the claimed {_shown(claim.epoch)}; attach anew",
        )
    return None


def _shown(epoch: Epoch) -> str:
    return f"{epoch.incarnation}.{epoch.revision}"


class DesiredGate:
    """Collects the messages of one stream into complete sets and changes that may be acted upon.

    Args:
        epoch: granted to this stream.
        claim: of the cluster, before this attachment's own claim.
    """

    def __init__(self, epoch: Epoch, claim: Claim) -> None:
        self._epoch = epoch
        self._least_revision = claim.accepted_revision if epoch.incarnation == claim.epoch.incarnation else 0
        self._told_revision = 0  # of the newest binding in a change, which may be ahead of its message
        self._whole = False
        self._collecting: dict[GangKey, Binding] | None = None
        self._collecting_revision = 0

    def receive(self, message: Desired) -> CompleteSet | Change | Breach | None:
        """What the message makes known; None while a complete set is still incomplete."""
        if message.epoch != self._epoch:
            return Breach(
                "WRONG_EPOCH",
                f"a desired set of epoch {_shown(message.epoch)} came on a stream of epoch {_shown(self._epoch)}",
            )
        least = max(self._least_revision, self._told_revision) if message.complete_begin else self._least_revision
        if message.revision < least:
            return Breach(
                "OLDER_REVISION",
                f"a desired set of revision {message.revision} is older than the accepted {least}",
            )
        if message.complete_begin:
            self._collecting, self._collecting_revision = {}, message.revision
        if self._collecting is not None:
            return self._collect(self._collecting, message)
        if not self._whole:
            return Breach("INCOMPLETE", "a change came before the complete desired set")
        self._least_revision = message.revision
        self._told_revision = max(self._told_revision, *(binding.revision for binding in message.bindings), 0)
        return Change(message.revision, message.bindings, message.removed, message.recovering)

    def _collect(self, into: dict[GangKey, Binding], message: Desired) -> CompleteSet | Breach | None:
        if message.revision != self._collecting_revision or message.removed:
            return Breach("MALFORMED", "the pieces of a complete set are of different revisions, or remove something")
        for binding in message.bindings:
            if binding.key in into:
                return Breach("MALFORMED", f"binding {binding.key} is twice in one complete set")
            into[binding.key] = binding
        if len(into) > DESIRED_SET_BINDINGS_MAX:
            return Breach("TOO_LARGE", f"a complete set has more than {DESIRED_SET_BINDINGS_MAX} bindings")
        if not message.complete_end:
            return None
        self._collecting, self._whole, self._least_revision = None, True, message.revision
        return CompleteSet(message.revision, tuple(into.values()), message.recovering)
