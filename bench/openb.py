"""How much of a real cluster's GPUs is allocated when more is asked for than there is: the openb experiment.

The pods of a list are drawn in a random order, one seed a run, and resampled until the GPUs asked for reach 130 % of
those of the 1,213 GPU nodes. Each is placed once, in order, by the product's own ledger, and never moves; one that
does not fit is dropped. Published values: "Beware of Fragmentation" (USENIX ATC'23) and its artifact, mean of 10
seeds.

    LISTS=DIR   pod lists of this folder; the nodes stay. Default: ../shared/data/openb beside the project.
    SEEDS=N     runs for each list, default 10.

Figures: `default_alloc130_pct`, GPUs allocated on the default list; `lists_at_or_above_fgd`, lists whose mean at 130
% is at least the published one less 0.1, of those that have a published row; `decision_us_mean`, wall time for each
pod asked for. `raw.rows` has {"list", "alloc100_pct", "alloc130_pct", "std130"} for each list. A figure that needs a
published row, or data, is null where that is absent; `raw.reason` says why.
"""

import csv
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Final, NamedTuple

from bench.contract import BenchArgs, BenchArgumentError, BenchResult, JsonValue
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger, Placed
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part
from hanse.model.job import Topology
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import CPU, DEVICE_MILLI, GPU_MILLI, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement, Selector

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "openb"
NODES_FILE: Final = "openb_node_list_gpu_node.csv"
LIST_PREFIX: Final = "openb_pod_list_"
MODEL_LABEL: Final = "gpu-model"
PODS_PER_NODE: Final = 110
DEMAND_PCT: Final = 130
AT_FGD: Final = 0.1
DEFAULT: Final = "default"
GPU_FLAVOR: Final = FlavorName("gpu")


class Published(NamedTuple):
    """GPUs allocated at 130 % arrival, in %, by the policies of the paper."""

    fgd: float
    best_fit: float


PUBLISHED: Final[Mapping[str, Published]] = {
    "default": Published(95.39, 93.08),
    "cpu050": Published(95.21, 93.79),
    "cpu100": Published(95.35, 93.44),
    "gpushare40": Published(94.15, 91.69),
    "gpuspec10": Published(94.95, 93.30),
    "gpuspec33": Published(94.55, 93.09),
    "multigpu20": Published(95.65, 93.93),
    "multigpu40": Published(96.99, 95.23),
}


@dataclass(frozen=True, slots=True)
class Pod:
    """What one pod asks for; `milli` are thousandths of a GPU, all of its GPUs together."""

    request: GangRequest
    milli: int


@dataclass(frozen=True, slots=True)
class Run:
    """One seed: per cent of GPUs allocated at 100 % and at 130 % arrival, pods asked for, seconds."""

    at_100: float
    at_130: float
    pods: int
    elapsed_s: float


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module."""
    given = BenchArgs(args)
    seeds = given.whole("SEEDS", 10)
    folder = Path(given.text("LISTS", "")) if "LISTS" in args else DATA
    told = given.done()
    if not (DATA / NODES_FILE).is_file():
        return _nothing(f"no node list {NODES_FILE} in ../shared/data/openb beside the project", told)
    if not folder.is_dir():
        raise BenchArgumentError(f"LISTS={folder}: no such folder")
    nodes = read_nodes(DATA / NODES_FILE)
    lists = {name_of(path): path for path in sorted(folder.glob("*.csv")) if is_pod_list(path)}
    if not lists:
        return _nothing("no pod list in the folder: no CSV file with cpu_milli, num_gpu and gpu_milli", told)
    runs = {name: _runs(nodes, name, path, seeds) for name, path in lists.items()}
    return _result(runs, told)


def _runs(nodes: Sequence[NodeFacts], name: str, path: Path, seeds: int) -> list[Run]:
    pods = read_pods(path)
    runs = [fill(nodes, pods, seed) for seed in range(seeds)]
    took_s = sum(r.elapsed_s for r in runs)
    print(f"{name}: {fmean(r.at_130 for r in runs):.2f} % at {DEMAND_PCT} %, {took_s:.0f} s", flush=True)
    return runs


def _nothing(reason: str, told: Mapping[str, str]) -> BenchResult:
    figures = dict.fromkeys(("default_alloc130_pct", "lists_at_or_above_fgd", "decision_us_mean"))
    return BenchResult(figures, {"args": told, "rows": [], "reason": reason})


def _result(runs: Mapping[str, Sequence[Run]], told: Mapping[str, str]) -> BenchResult:
    rows: list[JsonValue] = []
    at_fgd: list[bool] = []
    for name, seeds in runs.items():
        mean = fmean(r.at_130 for r in seeds)
        rows.append(
            {
                "list": name,
                "alloc100_pct": round(fmean(r.at_100 for r in seeds), 3),
                "alloc130_pct": round(mean, 3),
                "std130": round(stdev([r.at_130 for r in seeds]), 3) if len(seeds) > 1 else 0.0,
                "fgd130_pct": PUBLISHED[name].fgd if name in PUBLISHED else None,
                "seeds130_pct": [round(r.at_130, 3) for r in seeds],
            }
        )
        if name in PUBLISHED:
            at_fgd.append(mean >= PUBLISHED[name].fgd - AT_FGD)
    every = [r for seeds in runs.values() for r in seeds]
    figures: dict[str, float | None] = {
        "default_alloc130_pct": fmean(r.at_130 for r in runs[DEFAULT]) if DEFAULT in runs else None,
        "lists_at_or_above_fgd": sum(at_fgd) if at_fgd else None,
        "decision_us_mean": 1e6 * sum(r.elapsed_s for r in every) / sum(r.pods for r in every),
    }
    reason = "" if at_fgd else "no list of the folder has a published row"
    return BenchResult(figures, {"args": told, "rows": rows, "published_lists": len(at_fgd), "reason": reason})


# ---- one run ----------------------------------------------------------------------------------------------


def fill(nodes: Sequence[NodeFacts], pods: Sequence[Pod], seed: int) -> Run:
    """Places an over-long stream of pods on empty nodes."""
    ledger = NodeLedger(Inventory([Flavor(GPU_FLAVOR, 0)], nodes=nodes))
    capacity = sum(node.allocatable[NVIDIA_GPU] for node in nodes) * DEVICE_MILLI
    bound = (BoundSet("pod", 1, 0, GPU_FLAVOR),)
    arrived = allocated = asked = 0
    at_100: int | None = None
    started = time.perf_counter()
    for pod in stream(pods, capacity * DEMAND_PCT // 100, seed):
        arrived, asked = arrived + pod.milli, asked + 1
        if isinstance(ledger.place(GangKey(JobId(str(asked)), Attempt(1), Part(0)), pod.request, bound), Placed):
            allocated += pod.milli
        if at_100 is None and arrived >= capacity:
            at_100 = allocated
    elapsed_s = time.perf_counter() - started
    pct = 100 / capacity
    return Run((allocated if at_100 is None else at_100) * pct, allocated * pct, asked, elapsed_s)


def stream(pods: Sequence[Pod], demand_milli: int, seed: int) -> Iterator[Pod]:
    """The pods in a random order, then random ones of them, until their GPUs reach the demand."""
    rng = Random(seed)
    arrived = 0
    for pod in rng.sample(pods, len(pods)):
        if arrived >= demand_milli:
            return
        arrived += pod.milli
        yield pod
    while arrived < demand_milli:
        pod = rng.choice(pods)
        arrived += pod.milli
        yield pod


# ---- the data ---------------------------------------------------------------------------------------------


def name_of(path: Path) -> str:
    """`default` for `openb_pod_list_default.csv`; any other file's name without its ending."""
    return path.stem.removeprefix(LIST_PREFIX)


def is_pod_list(path: Path) -> bool:
    """Whether a file has the columns of a pod list."""
    with path.open(encoding="utf-8", newline="") as file:
        return {"cpu_milli", "num_gpu", "gpu_milli"} <= set(next(csv.reader(file), []))


def read_nodes(path: Path) -> tuple[NodeFacts, ...]:
    """Nodes that share their devices."""
    return tuple(_node(row) for row in _rows(path))


def _node(row: Mapping[str, str]) -> NodeFacts:
    gpus = int(row["gpu"])
    offered = {
        CPU: int(row["cpu_milli"]),
        MEMORY: int(row["memory_mib"]) << 20,
        PODS: PODS_PER_NODE,
        NVIDIA_GPU: gpus,
        GPU_MILLI: gpus * DEVICE_MILLI,
    }
    return NodeFacts(NodeName(row["sn"]), {MODEL_LABEL: row["model"]}, (), Resources(offered))


def read_pods(path: Path) -> tuple[Pod, ...]:
    """Pods of a list; equal ones share one request. Raises BenchArgumentError if no pod asks for a GPU."""
    kinds: dict[tuple[str, ...], Pod] = {}
    pods = tuple(_pod(row, kinds) for row in _rows(path))
    if not any(pod.milli for pod in pods):
        raise BenchArgumentError(f"{path.name}: no pod asks for a GPU, so no demand is ever reached")
    return pods


def _pod(row: Mapping[str, str], kinds: dict[tuple[str, ...], Pod]) -> Pod:
    spec = row.get("gpu_spec") or ""
    key = (row["cpu_milli"], row.get("memory_mib") or "0", row["num_gpu"] or "0", row["gpu_milli"] or "0", spec)
    found = kinds.get(key)
    if found is None:
        cpu, memory, gpus, milli = (int(text) for text in key[:4])
        shared = gpus == 1 and 0 < milli < DEVICE_MILLI
        asked = {CPU: cpu, MEMORY: memory << 20, **({GPU_MILLI: milli} if shared else {NVIDIA_GPU: gpus})}
        models = Requirement(MODEL_LABEL, Operator.IN, tuple(spec.split("|")))
        selector = Selector(((models,),)) if spec else Selector()
        one = SetRequest(1, 1, Resources(asked), (GPU_FLAVOR,), selector, (), Topology())
        found = kinds[key] = Pod(GangRequest((one,)), milli if shared else gpus * DEVICE_MILLI)
    return found


def _rows(path: Path) -> Iterable[Mapping[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
