"""Every option of sbatch (26.05): its letter, whether it takes a value, and what becomes of it.

`MAPPED` options are read by `component` and `conversion`. `NOTED` ones change nothing that a user would miss in the
result; they are named with the reason. `REFUSED` ones would change what the job is, when it may run or what it may
see, so a job that silently lacked them would be another job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import Final


@unique
class Takes(Enum):
    """Whether an option has a value."""

    NOTHING = "nothing"
    VALUE = "value"
    MAYBE = "maybe"


@unique
class Fate(Enum):
    """What becomes of an option."""

    MAPPED = "mapped"
    NOTED = "noted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OptionKind:
    """One option.

    Attributes:
        letter: short form, "" for none.
        why: for what is noted or refused.
        ours: one of Hanse's own, which stands in `#HANSE` lines and on the command line.
    """

    name: str
    letter: str
    takes: Takes
    fate: Fate
    why: str = ""
    ours: bool = False


_N, _V, _M = Takes.NOTHING, Takes.VALUE, Takes.MAYBE

_BIND: Final = "which cores and devices a task is bound to is left to the program and the node's kubelet"
_LAYOUT: Final = "tasks are laid out by --ntasks-per-node; sockets, cores and threads are not told apart"
_MAIL: Final = "no mail is sent; `hanse watch` and `hanse events` tell what happens"
_TUNE: Final = "the node's own settings stay as they are"
_SITE: Final = "it belongs to Slurm's own administration"
_LATER_START: Final = "jobs that start later, or after others, are not supported yet; submit it when it may start"
_EXACT: Final = "a gang takes its pods as described, and is not reshaped"
_RESERVED: Final = "reservations are not supported yet; remove it"

_MAPPED: Final = (
    ("account", "A", _V), ("array", "a", _V), ("chdir", "D", _V), ("comment", "", _V), ("constraint", "C", _V),
    ("container-image", "", _V), ("container-mounts", "", _V), ("container-workdir", "", _V),
    ("cpus-per-gpu", "", _V), ("cpus-per-task", "c", _V), ("error", "e", _V), ("exclude", "x", _V),
    ("exclusive", "", _M), ("export", "", _V), ("gpus", "G", _V), ("gpus-per-node", "", _V),
    ("gpus-per-task", "", _V), ("gres", "", _V), ("input", "i", _V), ("job-name", "J", _V), ("mem", "", _V),
    ("mem-per-cpu", "", _V), ("mem-per-gpu", "", _V), ("no-requeue", "", _N), ("nodelist", "w", _V),
    ("nodes", "N", _V), ("ntasks", "n", _V), ("ntasks-per-gpu", "", _V), ("ntasks-per-node", "", _V),
    ("open-mode", "", _V), ("output", "o", _V), ("partition", "p", _V), ("qos", "q", _V), ("requeue", "", _M),
    ("segment", "", _V), ("spread-segments", "", _N), ("consolidate-segments", "", _N), ("switches", "", _V),
    ("time", "t", _V), ("tmp", "", _V), ("wrap", "", _V),
)  # fmt: skip
_OURS: Final = ("image", "queue", "block-level", "switch-level", "upper-level", "gpu-resource")

_NOTED: Final = (
    ("acctg-freq", "", _V, _SITE), ("batch", "", _V, "the batch step runs on every node"),
    ("bb", "", _V, _SITE), ("bbf", "", _V, _SITE),
    ("contiguous", "", _N, "nodes are near by topology, not by number"), ("core-spec", "S", _V, _TUNE),
    ("cores-per-socket", "", _V, _LAYOUT), ("cpu-bind", "", _V, _BIND), ("cpu-freq", "", _V, _TUNE),
    ("delay-boot", "", _V, _SITE), ("distribution", "m", _V, "ranks follow the topology, consecutive in each domain"),
    ("extra", "", _V, _SITE), ("extra-node-info", "B", _V, _LAYOUT), ("get-user-env", "", _M, "a pod has no login"),
    ("gpu-bind", "", _V, _BIND), ("gpu-freq", "", _V, _TUNE), ("gres-flags", "", _V, _BIND),
    ("hint", "", _V, _BIND), ("hold", "H", _N, "submit it, then `hanse hold` it, or hold its queue before"),
    ("ignore-pbs", "", _N, "no #PBS line is read anyway"), ("kill-on-invalid-dep", "", _V, _SITE),
    ("mail-type", "", _V, _MAIL), ("mail-user", "", _V, _MAIL), ("mcs-label", "", _V, _SITE),
    ("mem-bind", "", _V, _BIND), ("mincpus", "", _V, "--ntasks-per-node and --cpus-per-task say it"),
    ("network", "", _V, "a network channel for each segment is not set up"),
    ("nice", "", _M, "the priority class decides (--qos)"), ("no-kill", "k", _M, "a gang runs whole or not at all"),
    ("ntasks-per-core", "", _V, _LAYOUT), ("ntasks-per-socket", "", _V, _LAYOUT),
    ("overcommit", "O", _N, "a pod gets what it asks for"), ("oversubscribe", "s", _M, "a pod gets what it asks for"),
    ("parsable", "", _N, "-o json of `hanse submit` is for programs"), ("power", "", _V, _SITE),
    ("prefer", "", _V, "places are not chosen by preferred labels"),
    ("priority", "", _V, "the priority class decides (--qos)"), ("profile", "", _V, _SITE),
    ("propagate", "", _M, "limits of the submitting shell are not taken along"), ("quiet", "Q", _N, ""),
    ("reboot", "", _N, _TUNE), ("resv-ports", "", _M, "pods have addresses of their own"),
    ("signal", "", _V, "nothing is preempted yet; a job that is stopped gets TERM, then KILL"),
    ("sockets-per-node", "", _V, _LAYOUT), ("spread-job", "", _N, "each node is a host of its own already"),
    ("stepmgr", "", _N, _SITE), ("thread-spec", "", _V, _TUNE), ("threads-per-core", "", _V, _LAYOUT),
    ("time-min", "", _V, _EXACT), ("tres-bind", "", _V, _BIND), ("use-min-nodes", "", _N, _EXACT),
    ("verbose", "v", _N, ""), ("wait", "W", _N, "`hanse wait` waits for a job"),
    ("wait-all-nodes", "", _V, "a gang starts when all of its pods do"), ("wckey", "", _V, _SITE),
    ("deadline", "", _V, "a job that would end after it is not removed; --time bounds its run"),
)  # fmt: skip
_REFUSED: Final = (
    ("begin", "b", _V, _LATER_START), ("dependency", "d", _V, _LATER_START),
    ("licenses", "L", _V, "licences are not counted; give the queue a limit of running jobs instead"),
    ("reservation", "", _V, _RESERVED), ("nodefile", "F", _V, "name the hosts by --nodelist"),
    ("clusters", "M", _V, "Hanse chooses the pool; narrow it by --constraint KEY=VALUE"),
    ("cluster-constraint", "", _V, "Hanse chooses the pool; narrow it by --constraint KEY=VALUE"),
    ("gpus-per-socket", "", _V, "sockets are not told apart; use --gpus-per-node"),
    ("gid", "", _V, "a pod runs as its image or namespace says"),
    ("uid", "", _V, "a pod runs as its image or namespace says"),
    ("container", "", _V, "OCI bundles are not run; name an image by --container-image"),
    ("container-id", "", _V, "pods have names of their own; remove it"),
    ("container-name", "", _V, "containers are not kept between jobs; name an image by --container-image"),
    ("container-save", "", _V, "containers are not saved; remove it"),
    ("test-only", "", _N, "`hanse convert` shows what the script asks for"),
    ("tres-per-task", "", _V, "use --gpus-per-task and --cpus-per-task"),
)  # fmt: skip


def _table() -> dict[str, OptionKind]:
    found = [OptionKind(name, letter, takes, Fate.MAPPED) for name, letter, takes in _MAPPED]
    found += [OptionKind(name, "", Takes.VALUE, Fate.MAPPED, ours=True) for name in _OURS]
    found += [OptionKind(name, letter, takes, Fate.NOTED, why) for name, letter, takes, why in _NOTED]
    found += [OptionKind(name, letter, takes, Fate.REFUSED, why) for name, letter, takes, why in _REFUSED]
    return {kind.name: kind for kind in found}


OPTIONS: Final[Mapping[str, OptionKind]] = MappingProxyType(_table())
BY_LETTER: Final[Mapping[str, OptionKind]] = MappingProxyType(
    {kind.letter: kind for kind in OPTIONS.values() if kind.letter}
)
