"""The options of one component to one pod set of a native job: a node of Slurm is a pod.

Nodes of a Slurm job are different hosts, so no two of its pods share one. What Slurm takes from the machine (all of
its memory with `--mem=0`, all of it with `--exclusive`) becomes a host for the pod alone. With `--exclusive` a pod
asks for no number of CPUs: what it asks for is also its limit, and Slurm would give it all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hanse.manifests.sbatch.features import constraint_terms
from hanse.manifests.sbatch.script import Option
from hanse.manifests.sbatch.values import Devices, count, devices, gres, hosts, mebibytes, node_range
from hanse.model.names import quoted

GPUS_PER_NODE: Final = 8
"""GPUs of a node if only their sum is given: a whole host of the usual kind."""

HOSTNAME: Final = "kubernetes.io/hostname"
HOST: Final = "host"
_GPU: Final = "nvidia.com/gpu"
_MEMORY_OPTIONS: Final = ("mem", "mem-per-cpu", "mem-per-gpu")
_GPU_OPTIONS: Final = ("gpus", "gpus-per-node", "gpus-per-task", "gres")

Note = Callable[[Option, str], None]


@dataclass(frozen=True, slots=True)
class Layout:
    """How many nodes and tasks, and what a node has.

    Attributes:
        least: nodes without which the job is useless.
        devices: GPUs of a node.
    """

    nodes: int
    least: int
    tasks_per_node: int
    cpus_per_task: int
    devices: Devices


@dataclass(slots=True)
class Component:
    """A pod set as far as it was put together: the native form, and which option caused which part of it."""

    name: str
    options: Mapping[str, Option]
    layout: Layout
    native: dict[str, object] = field(default_factory=dict)
    blames: dict[str, Option] = field(default_factory=dict)

    def put(self, key: str, value: object, *options: Option | None) -> None:
        """Set a part, and say which option it is due to: the last of those that were given."""
        self.native[key] = value
        for option in options:
            if option:
                self.blames[key] = option


def read_component(name: str, options: Mapping[str, Option], note: Note) -> Component:
    """The pod set of a component.

    Raises:
        InvalidArgument: values that make no sense, or contradict each other.
    """
    _excluding(options, _MEMORY_OPTIONS)
    _excluding(options, ("gres", "gpus-per-node"))
    layout = _layout(options, note)
    found = Component(name, options, layout)
    found.put("name", name)
    found.put("count", layout.nodes, options.get("ntasks"), options.get("nodes"))
    if layout.least < layout.nodes:
        found.put("min_count", layout.least, options.get("nodes"))
    _resources(found)
    _topology(found, note)
    _nodes(found)
    _image(found)
    return found


def _excluding(options: Mapping[str, Option], names: tuple[str, ...]) -> None:
    given = [options[name] for name in names if name in options]
    if len(given) > 1:
        given[1].refuse("CONTRADICTION", f"excludes {given[0].shown}{_at(given[0])}; keep one of the two")


def _at(option: Option) -> str:
    return f" in line {option.line}" if option.line else ""


def _layout(options: Mapping[str, Option], note: Note) -> Layout:
    """Nodes from --nodes, else from tasks, else from GPUs, else one."""
    tasks = count(options["ntasks"], "tasks") if "ntasks" in options else 0
    per_node = count(options["ntasks-per-node"], "tasks on a node") if "ntasks-per-node" in options else 0
    least, nodes = _nodes_wanted(options, tasks, per_node, note)
    gpus = _gpus(options, nodes, max(1, per_node or -(-tasks // nodes)))
    if not per_node:
        per_node = -(-tasks // nodes) if tasks else 1
        if "ntasks-per-gpu" in options and gpus.number:
            per_node = count(options["ntasks-per-gpu"], "tasks of a GPU") * gpus.number
    cpus = count(options["cpus-per-task"], "CPUs of a task") if "cpus-per-task" in options else 0
    if not cpus and "cpus-per-gpu" in options:
        cpus = -(-count(options["cpus-per-gpu"], "CPUs of a GPU") * gpus.number // per_node)
    return Layout(nodes, least, per_node, cpus or 1, gpus)


def _nodes_wanted(options: Mapping[str, Option], tasks: int, per_node: int, note: Note) -> tuple[int, int]:
    if "nodes" in options:
        return node_range(options["nodes"])
    if tasks:
        if not per_node and tasks > 1:
            note(options["ntasks"], "without --nodes or --ntasks-per-node each task is a pod of its own")
        nodes = -(-tasks // (per_node or 1))
        return nodes, nodes
    if "gpus" in options:
        total = devices(options["gpus"]).number
        if total > GPUS_PER_NODE:
            note(options["gpus"], f"without --nodes these are nodes of {GPUS_PER_NODE} GPUs")
        nodes = max(1, -(-total // GPUS_PER_NODE))
        return nodes, nodes
    return 1, 1


def _gpus(options: Mapping[str, Option], nodes: int, tasks_per_node: int) -> Devices:
    if "gres" in options:
        return gres(options["gres"])
    if "gpus-per-node" in options:
        return devices(options["gpus-per-node"])
    if "gpus-per-task" in options:
        each = devices(options["gpus-per-task"])
        return Devices(each.type, each.number * tasks_per_node)
    if "gpus" not in options:
        return Devices("", 0)
    total = devices(options["gpus"])
    if total.number % nodes:
        options["gpus"].refuse("COUNT_OUT_OF_RANGE", f"{total.number} GPUs do not divide among {nodes} nodes")
    return Devices(total.type, total.number // nodes)


def _resources(found: Component) -> None:
    options, layout = found.options, found.layout
    resource = options["gpu-resource"].value if "gpu-resource" in options else _GPU
    amounts: dict[str, object] = (
        {} if "exclusive" in options else {"cpu": layout.tasks_per_node * layout.cpus_per_task}
    )
    blame = next((options[name] for name in _GPU_OPTIONS if name in options), None)
    if layout.devices.number:
        amounts[resource] = layout.devices.number
        found.blames[f"resources.{resource}"] = blame or next(iter(options.values()))
    if layout.devices.type:
        found.put("flavors", [layout.devices.type], blame)
    memory = _memory_mib(options, layout)
    if memory:
        amounts["memory"] = f"{memory}Mi"
    if "tmp" in options:
        amounts["ephemeral-storage"] = f"{mebibytes(options['tmp'])}Mi"
    found.put("resources", amounts, *(options.get(name) for name in ("cpus-per-task", *_MEMORY_OPTIONS)))


def _memory_mib(options: Mapping[str, Option], layout: Layout) -> int:
    if "mem" in options:
        return mebibytes(options["mem"])
    if "mem-per-cpu" in options:
        return mebibytes(options["mem-per-cpu"]) * layout.tasks_per_node * layout.cpus_per_task
    if "mem-per-gpu" in options:
        if not layout.devices.number:
            options["mem-per-gpu"].refuse("CONTRADICTION", "no GPUs are asked for; say --mem")
        return mebibytes(options["mem-per-gpu"]) * layout.devices.number
    return 0


def _topology(found: Component, note: Note) -> None:
    options, nodes = found.options, found.layout.nodes
    level = options["block-level"].value if "block-level" in options else "block"
    slices: list[dict[str, object]] = []
    segment = _segment(options, nodes, note)
    whole = _whole_host(options)
    topo = "exclusive" in options and options["exclusive"].value == "topo"
    if segment or topo:
        slices.append({"size": segment or nodes, "level": level} | ({"exclusive": True} if topo else {}))
    if whole and not topo:
        slices.append({"size": 1, "level": HOST, "exclusive": True})
    if slices:
        found.put("slices", slices, whole, options.get("segment"))
    _spread(found, segment, level, alone=whole is not None, note=note)
    if segment and "consolidate-segments" in options:
        found.put("required", _upper(options), options["consolidate-segments"])
    if "switches" in options:
        _switches(found, note)


def _segment(options: Mapping[str, Option], nodes: int, note: Note) -> int:
    if "segment" not in options:
        for name in ("spread-segments", "consolidate-segments"):
            if name in options:
                note(options[name], "there are no segments; say --segment")
        return 0
    option = options["segment"]
    size = count(option, "nodes in a segment")
    if nodes <= size:
        note(option, f"{nodes} nodes are no more than one segment; Slurm ignores it too")
        return 0
    if nodes % size:
        option.refuse("SLICE_SIZE", f"{nodes} nodes do not divide into segments of {size}")
    return size


def _whole_host(options: Mapping[str, Option]) -> Option | None:
    """The option by which a node is wanted whole."""
    if "exclusive" in options:
        value = options["exclusive"].value
        if value not in ("", "user", "mcs", "topo"):
            options["exclusive"].refuse("UNKNOWN_VALUE", f"{quoted(value)} is not known; use user, mcs or topo")
        return options["exclusive"]
    if "mem" in options and mebibytes(options["mem"]) == 0:
        return options["mem"]
    return None


def _spread(found: Component, segment: int, level: str, *, alone: bool, note: Note) -> None:
    options = found.options
    if segment and "spread-segments" in options:
        found.put("spread", {"level": level, "max_pods": segment}, options["spread-segments"])
        if not alone:
            note(options["spread-segments"], "with it, nodes that ask for a part of a host may share one")
    elif not alone and found.layout.nodes > 1:
        found.put("spread", {"level": HOST, "max_pods": 1}, options.get("nodes"))


def _upper(options: Mapping[str, Option]) -> str:
    if "upper-level" not in options:
        options["consolidate-segments"].refuse(
            "MISSING", "no level holds several blocks; name it in a line `#HANSE --upper-level=LEVEL`"
        )
    return options["upper-level"].value


def _switches(found: Component, note: Note) -> None:
    option = found.options["switches"]
    wanted, _, wait = option.value.partition("@")
    most = count(Option(option.kind, wanted, option.line), "switches")
    if wait:
        note(option, "a gang does not wait for fewer switches; it takes the fewest that are free")
    if most > 1:
        note(option, f"the fewest switches are used, whether or not these are {most}")
    elif "required" not in found.native:
        level = found.options["switch-level"].value if "switch-level" in found.options else "rack"
        found.put("preferred", level, option)


def _nodes(found: Component) -> None:
    options = found.options
    terms: list[list[dict[str, object]]] = (
        constraint_terms(options["constraint"]) if "constraint" in options else [[]]
    )
    for name, operator in (("nodelist", "In"), ("exclude", "NotIn")):
        if name not in options:
            continue
        named = hosts(options[name])
        if name == "nodelist" and len(named) < found.layout.nodes:
            options[name].refuse(
                "CONTRADICTION", f"{len(named)} hosts are named for {found.layout.nodes} nodes; name all of them"
            )
        terms = [[*term, {"key": HOSTNAME, "operator": operator, "values": named}] for term in terms]
    if any(terms):
        blames = (options.get(name) for name in ("exclude", "nodelist", "constraint"))
        found.put("selector", terms, *blames)


def _image(found: Component) -> None:
    options = found.options
    if "image" in options or "container-image" in options:
        option = options.get("image") or options["container-image"]
        found.put("image", option.value.removeprefix("docker://").replace("#", "/", 1), option)
    if "container-mounts" in options:
        found.put("volumes", _mounts(options["container-mounts"]), options["container-mounts"])


def _mounts(option: Option) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for index, text in enumerate(option.value.split(",")):
        source, _, rest = text.partition(":")
        target, _, flags = rest.partition(":")
        if not source.startswith("/") or (target and not target.startswith("/")):
            option.refuse("TYPE", f"{quoted(text)} is not /SOURCE[:/TARGET[:ro]]")
        mount: dict[str, object] = {"name": f"mount-{index}", "kind": "host_path", "source": source}
        out.append(
            mount | {"mount_path": target or source} | ({"read_only": True} if "ro" in flags.split("+") else {})
        )
    return out
