"""Questions that only an agent can answer, and its answers: nodes, nearest domains, log lines. Never stored above."""

from dataclasses import dataclass

from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName
from hanse.model.placement import NodePlace

DETAIL_NODES_PER_REPLY_MAX = 1_000
DETAIL_LINES_PER_REPLY_MAX = 500


@dataclass(frozen=True, slots=True)
class NodesQuestion:
    """On which nodes a gang is, or was."""

    gang: GangKey


@dataclass(frozen=True, slots=True)
class ExplainQuestion:
    """Where a job would come nearest to fitting: `spec` is hanse.api.v1.JobSpec, `flavors` one for each pod set."""

    spec: bytes
    flavors: tuple[FlavorName, ...]


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """Why a gang is on the nodes where it is."""

    gang: GangKey


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Lines of one pod; `tail_lines` newest to begin with, 0 for all; `follow` goes on until the pod ends."""

    gang: GangKey
    pod_set: str
    rank: int
    follow: bool = False
    tail_lines: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """No more of this answer, please."""


@dataclass(frozen=True, slots=True)
class UnknownQuestion:
    """What a newer version asks. It is answered with an error, for the sake of everything else on the stream."""


Question = NodesQuestion | ExplainQuestion | ChoiceQuestion | LogQuestion | Cancel | UnknownQuestion


@dataclass(frozen=True, slots=True)
class DetailRequest:
    """A question with the asker's number for it."""

    id: int
    question: Question


@dataclass(frozen=True, slots=True)
class DetailReply:
    """A piece of an answer; `end` marks the last; `error` says in one line why there is none."""

    id: int
    end: bool = False
    error: str = ""
    nodes: tuple[NodePlace, ...] = ()
    lines: tuple[str, ...] = ()
