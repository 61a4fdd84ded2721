"""Shapes written down by hand: a block is a list of racks, a rack the free GPUs of its hosts."""

from hanse.model.ids import FlavorName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector, Taint, Toleration
from hanse.shape import Group, Shape
from hanse.shape.classes import HostClass, label_hash
from hanse.shape.domains import branch, leaf
from hanse.shape.lens import Table

H100 = FlavorName("h100")
LEVELS = (Level("example.com/block", "block"), Level("example.com/rack", "rack"))
REST = Resources({"cpu": 128_000, "memory": 1 << 40, "pods": 110})


def host_class(
    flavor: FlavorName = H100,
    gpus: int = 8,
    others: Resources = REST,
    taints: tuple[Taint, ...] = (),
    labels: dict[str, str] | None = None,
) -> HostClass:
    pairs = sorted((label_hash(k), label_hash(v)) for k, v in (labels or {}).items())
    return HostClass(flavor, NVIDIA_GPU if gpus else "", gpus, others, taints, tuple(pairs))


def shape(*blocks: list[list[int]], classes: tuple[HostClass, ...] = (host_class(),), clipped: int = 0) -> Shape:
    """Blocks of racks of hosts of the first class."""
    nodes = []
    for racks in blocks:
        kids = []
        for rack in racks:
            counts: dict[tuple[int, int], int] = {}
            for free in rack:
                counts[0, free] = counts.get((0, free), 0) + 1
            kids.append((leaf(counts), 1))
        nodes.append((branch(kids), 1))
    return Shape((Group(LEVELS, branch(nodes)),), Table(classes), clipped)


def pods(
    count: int,
    gpus: int = 8,
    *,
    required: str = "",
    preferred: str = "",
    slices: tuple[Slice, ...] = (),
    selector: Selector = Selector(),  # noqa: B008 - frozen
    tolerations: tuple[Toleration, ...] = (),
    cpu: int = 0,
) -> SetRequest:
    amounts = Resources({NVIDIA_GPU: gpus, "cpu": cpu})
    return SetRequest(count, count, amounts, (), selector, tolerations, Topology(required, preferred, slices))


def gang(*sets: SetRequest) -> GangRequest:
    return GangRequest(sets)
