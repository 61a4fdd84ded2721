"""What each method of the server asks of its caller: the one table. A method that is not in it is refused.

`KNOWN`     whoever is known
`FEDERATION` the verb in the whole federation, checked before the service sees the call
`QUEUES`    the verb in some queue; the service looks at each queue and job that the call is about
`ANYBODY`   no credentials are asked for

`writes` marks what changes something: it stands in the audit log.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hanse.apiserver.access.rights import Access, denied_anywhere
from hanse.apiserver.access.verbs import Verb


class Scope(Enum):
    """Where a verb is looked for."""

    ANYBODY = auto()
    KNOWN = auto()
    FEDERATION = auto()
    QUEUES = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a method asks for."""

    scope: Scope
    verb: Verb | None = None
    writes: bool = False

    def check(self, access: Access) -> None:
        """Whether a caller may call it at all. Raises PermissionDenied."""
        if self.verb is None:
            return
        if self.scope is Scope.FEDERATION:
            access.require(self.verb)
        elif self.scope is Scope.QUEUES and not access.somewhere(self.verb):
            raise denied_anywhere(access, self.verb)


_ANYBODY: Final = Rule(Scope.ANYBODY)
_KNOWN: Final = Rule(Scope.KNOWN)
_VIEW: Final = Rule(Scope.QUEUES, Verb.VIEW)
_LOGS: Final = Rule(Scope.QUEUES, Verb.LOGS)
_SUBMIT: Final = Rule(Scope.QUEUES, Verb.SUBMIT, writes=True)
_CHANGE: Final = Rule(Scope.QUEUES, Verb.CHANGE, writes=True)
_EXEC: Final = Rule(Scope.QUEUES, Verb.EXEC, writes=True)
_HOLD_QUEUE: Final = Rule(Scope.QUEUES, Verb.HOLD_QUEUE, writes=True)
_AUDIT: Final = Rule(Scope.QUEUES, Verb.AUDIT)
_FEDERATION: Final = Rule(Scope.FEDERATION, Verb.VIEW_FEDERATION)
_OPERATE: Final = Rule(Scope.FEDERATION, Verb.OPERATE, writes=True)
_OVERSEE: Final = Rule(Scope.FEDERATION, Verb.OPERATE)
_CONFIGURE: Final = Rule(Scope.FEDERATION, Verb.CONFIGURE, writes=True)
_ATTACH: Final = Rule(Scope.FEDERATION, Verb.ATTACH)
_PEER: Final = Rule(Scope.FEDERATION, Verb.PEER)
_SIMULATE: Final = Rule(Scope.FEDERATION, Verb.ATTACH)

RULES: Final = {
    "hanse.api.v1.JobService/SubmitJobs": _SUBMIT,
    "hanse.api.v1.JobService/StreamJobs": _SUBMIT,
    "hanse.api.v1.JobService/GetJob": _VIEW,
    "hanse.api.v1.JobService/ListJobs": _VIEW,
    "hanse.api.v1.JobService/WatchJobs": _VIEW,
    "hanse.api.v1.JobService/CancelJob": _CHANGE,
    "hanse.api.v1.JobService/HoldJob": _CHANGE,
    "hanse.api.v1.JobService/ReleaseJob": _CHANGE,
    "hanse.api.v1.JobService/UpdateJob": _CHANGE,
    "hanse.api.v1.JobService/RetryJob": _CHANGE,
    "hanse.api.v1.JobService/ExplainJob": _VIEW,
    "hanse.api.v1.JobService/TailLogs": _LOGS,
    "hanse.api.v1.JobService/ExecJob": _EXEC,
    "hanse.api.v1.EventService/TailEvents": _VIEW,
    "hanse.api.v1.PoolService/GetPool": _VIEW,
    # What all others run there too.
    "hanse.api.v1.PoolService/GetPoolRacks": _FEDERATION,
    "hanse.api.v1.PoolService/ListPools": _VIEW,
    "hanse.api.v1.PoolService/WatchPools": _VIEW,
    "hanse.api.v1.PoolService/CordonPool": _OPERATE,
    "hanse.api.v1.PoolService/DrainPool": _OPERATE,
    "hanse.api.v1.PoolService/UncordonPool": _OPERATE,
    "hanse.api.v1.PoolService/LeavePool": _OPERATE,
    "hanse.api.v1.PoolService/ReadmitPool": _OPERATE,
    "hanse.api.v1.QueueService/CreateQueue": _CONFIGURE,
    "hanse.api.v1.QueueService/GetQueue": _VIEW,
    "hanse.api.v1.QueueService/ListQueues": _VIEW,
    "hanse.api.v1.QueueService/UpdateQueue": _CONFIGURE,
    "hanse.api.v1.QueueService/DeleteQueue": _CONFIGURE,
    "hanse.api.v1.QueueService/HoldQueue": _HOLD_QUEUE,
    "hanse.api.v1.QueueService/ReleaseQueue": _HOLD_QUEUE,
    "hanse.api.v1.QueueService/GiveQueue": _OPERATE,
    "hanse.api.v1.ConfigService/Apply": _CONFIGURE,
    "hanse.api.v1.ConfigService/CreateFlavor": _CONFIGURE,
    "hanse.api.v1.ConfigService/GetFlavor": _VIEW,
    "hanse.api.v1.ConfigService/ListFlavors": _VIEW,
    "hanse.api.v1.ConfigService/UpdateFlavor": _CONFIGURE,
    "hanse.api.v1.ConfigService/DeleteFlavor": _CONFIGURE,
    "hanse.api.v1.ConfigService/CreatePriorityClass": _CONFIGURE,
    "hanse.api.v1.ConfigService/GetPriorityClass": _VIEW,
    "hanse.api.v1.ConfigService/ListPriorityClasses": _VIEW,
    "hanse.api.v1.ConfigService/UpdatePriorityClass": _CONFIGURE,
    "hanse.api.v1.ConfigService/DeletePriorityClass": _CONFIGURE,
    "hanse.api.v1.ConfigService/CreateCohort": _CONFIGURE,
    "hanse.api.v1.ConfigService/GetCohort": _FEDERATION,
    "hanse.api.v1.ConfigService/ListCohorts": _FEDERATION,
    "hanse.api.v1.ConfigService/UpdateCohort": _CONFIGURE,
    "hanse.api.v1.ConfigService/DeleteCohort": _CONFIGURE,
    "hanse.api.v1.TrustService/CreateJoinToken": _OPERATE,
    "hanse.api.v1.TrustService/ListJoinTokens": _OVERSEE,
    "hanse.api.v1.TrustService/DeleteJoinToken": _OPERATE,
    "hanse.api.v1.TrustService/RevokeCertificates": _OPERATE,
    "hanse.api.v1.TrustService/ListRevocations": _OVERSEE,
    "hanse.api.v1.TrustService/DeleteRevocation": _OPERATE,
    "hanse.api.v1.ServerService/GetServerInfo": _KNOWN,
    "hanse.api.v1.ServerService/GetStatus": _VIEW,
    "hanse.api.v1.UsageService/ReadUsage": _VIEW,
    "hanse.api.v1.AccessService/WhoAmI": _KNOWN,
    "hanse.api.v1.AccessService/CheckAccess": _KNOWN,
    "hanse.api.v1.AuditService/ListAuditRecords": _AUDIT,
    "hanse.link.v1.LinkService/Attach": _ATTACH,
    "hanse.link.v1.LinkService/Carry": _ATTACH,
    "hanse.link.v1.RenewService/Renew": _ATTACH,
    # Its port is its own; a token is what it asks for.
    "hanse.link.v1.JoinService/Join": _ANYBODY,
    "hanse.link.v1.PeerService/AskPool": _PEER,
    "hanse.link.v1.PeerService/TalkPool": _PEER,
    "hanse.link.v1.PeerService/FetchSummaries": _PEER,
    "hanse.link.v1.PeerService/FetchEvents": _PEER,
    "hanse.link.v1.PeerService/FetchVitals": _PEER,
    "hanse.link.v1.PeerService/FetchAudit": _PEER,
    "hanse.sim.v1.SimService/ReadClaim": _SIMULATE,
    "hanse.sim.v1.SimService/Claim": _SIMULATE,
    "hanse.sim.v1.SimService/List": _SIMULATE,
    "hanse.sim.v1.SimService/Watch": _SIMULATE,
    "hanse.sim.v1.SimService/Write": _SIMULATE,
    "hanse.sim.v1.SimService/Lacking": _SIMULATE,
    "hanse.sim.v1.SimService/Pods": _SIMULATE,
    "hanse.sim.v1.SimService/Logs": _SIMULATE,
    "hanse.sim.v1.SimService/Exec": _SIMULATE,
    "hanse.sim.v1.SimService/PodLog": _SIMULATE,
    "hanse.sim.v1.SimService/Describe": _SIMULATE,
    "hanse.sim.v1.SimService/Fail": _SIMULATE,
    "hanse.sim.v1.SimService/Restore": _SIMULATE,
    "hanse.sim.v1.SimService/MarkNodes": _SIMULATE,
    "hanse.sim.v1.SimService/AddForeign": _SIMULATE,
    "hanse.sim.v1.SimService/RemoveForeign": _SIMULATE,
    # Probes of Kubernetes have no token, and are told nothing that an address does not tell.
    "grpc.health.v1.Health/Check": _ANYBODY,
    "grpc.health.v1.Health/Watch": _ANYBODY,
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _KNOWN,
}
