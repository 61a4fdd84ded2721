"""Questions that only an agent can answer, and its answers: nodes, nearest domains, log lines. Never stored above."""

from dataclasses import dataclass

from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName
from hanse.model.placement import NodePlace

DETAIL_NODES_PER_REPLY_MAX = 1_000
DETAIL_LINES_PER_REPLY_MAX = 500
DETAIL_RACKS_PER_REPLY_MAX = 1_000
REPLY_WINDOW = 32
"""Replies of a stream of lines or bytes that may be under way."""

INPUT_WINDOW = 8
"""Inputs of a command that may be under way."""

EXEC_BYTES_MAX = 65_536
"""Of one piece of what a command reads or writes."""

COMMAND_WORDS_MAX = 256
COMMAND_CHARS_MAX = 32_768


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
class RacksQuestion:
    """How the lowest domains of the pool are used."""


@dataclass(frozen=True, slots=True)
class RackUse:
    """One lowest domain. Every GPU counts once: free, held, releasing, broken, or else busy.

    Attributes:
        path: from the coarsest domain to this one; () for hosts that are in none.
        broken_hosts: take no pods now.
        whole_hosts: all of their GPUs are free.
        held_gpus: of gangs whose pods were not told to run yet.
        releasing_gpus: of gangs whose pods are being ended.
    """

    path: tuple[str, ...]
    hosts: int
    broken_hosts: int = 0
    whole_hosts: int = 0
    gpus: int = 0
    free_gpus: int = 0
    held_gpus: int = 0
    releasing_gpus: int = 0
    broken_gpus: int = 0


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Lines of one pod; `tail_lines` newest to begin with, 0 for all; `follow` goes on until the pod ends.

    At most `window` replies are ahead of what the asker has taken, 0 for any number.
    """

    gang: GangKey
    pod_set: str
    rank: int
    follow: bool = False
    tail_lines: int = 0
    window: int = 0


@dataclass(frozen=True, slots=True)
class ExecQuestion:
    """A command to be run in one pod; `window` as of LogQuestion.

    Attributes:
        stdin: inputs follow; else it reads nothing.
        tty: it has a terminal.
    """

    gang: GangKey
    pod_set: str
    rank: int
    command: tuple[str, ...]
    stdin: bool = False
    tty: bool = False
    window: int = 0


@dataclass(frozen=True, slots=True)
class ExecInput:
    """What a running command reads, and how large its terminal is; `rows` 0 leaves that as it is."""

    data: bytes = b""
    end: bool = False
    rows: int = 0
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """The asker has taken so many more replies."""

    replies: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """No more of this answer, please."""


@dataclass(frozen=True, slots=True)
class UnknownQuestion:
    """What a newer version asks. It is answered with an error, for the sake of everything else on the stream."""


Question = (
    NodesQuestion
    | ExplainQuestion
    | ChoiceQuestion
    | RacksQuestion
    | LogQuestion
    | ExecQuestion
    | ExecInput
    | Taken
    | Cancel
    | UnknownQuestion
)


@dataclass(frozen=True, slots=True)
class DetailRequest:
    """A question with the asker's number for it."""

    id: int
    question: Question


@dataclass(frozen=True, slots=True)
class DetailReply:
    """A piece of an answer; `end` marks the last; `error` says in one line why there is none.

    Attributes:
        stdout, stderr: what a command wrote.
        exit_code: how it ended; None if it has not, or the answer is no command's.
        inputs_taken: inputs that it has read since the last reply.
        counted: the agent counts this reply against the question's window.
    """

    id: int
    end: bool = False
    error: str = ""
    nodes: tuple[NodePlace, ...] = ()
    lines: tuple[str, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    inputs_taken: int = 0
    counted: bool = False
    racks: tuple[RackUse, ...] = ()
