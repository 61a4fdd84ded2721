"""The fleet that benches measure on: equal pools of racks of 25 hosts in blocks of 8 racks (of 4, where a number of
nodes is not made of whole blocks of 8), and queues that lend each other nothing."""

from typing import Final

GPU: Final = "nvidia.com/gpu"
GPUS_PER_NODE: Final = 8
NODES_PER_RACK: Final = 25
RACKS_PER_BLOCK: Final = (8, 4)


def pool_tree(nodes: int) -> tuple[int, int, int]:
    """Blocks, racks of each, hosts of each: `nodes` rounded down to whole blocks, of which there is at least one."""
    large, small = RACKS_PER_BLOCK
    racks = small if nodes % (large * NODES_PER_RACK) >= small * NODES_PER_RACK else large
    return max(1, nodes // (racks * NODES_PER_RACK)), racks, NODES_PER_RACK


HELD_QUEUE: Final = "later"
"""A queue on hold: its jobs are accepted, and wait."""


def nodes_of(nodes: int) -> int:
    """How many a pool has that is asked to have so many."""
    blocks, racks, hosts = pool_tree(nodes)
    return blocks * racks * hosts


def fleet_text(
    pools: int, nodes: int, queues: int, *, run_s: float, start_s: float = 0.2, start_jitter_s: float = 0.1
) -> str:
    """A fleet file; see `pool_tree` for the nodes of each pool. Beside the queues there is HELD_QUEUE."""
    blocks, racks, hosts = pool_tree(nodes)
    pool_lines = "\n".join(
        f"  - name: pool-{n:02d}\n    region: r{n % 4}\n    dialect: generic\n"
        f"    run_s: {run_s}\n    start_s: {start_s}\n    start_jitter_s: {start_jitter_s}\n"
        f"    groups:\n      - node_prefix: p{n:02d}\n        gpu: h100\n        levels:\n"
        f"          - {{name: block, count: {blocks}}}\n"
        f"          - {{name: rack, count: {racks}}}\n          - {{name: host, count: {hosts}}}\n"
        for n in range(pools)
    )
    queue_lines = "\n".join(
        f"  - name: team-{n}\n    quotas:\n      - {{flavor: h100, nominal: {{{GPU}: 1000000}}}}"
        for n in range(queues)
    )
    queue_lines += (
        f"\n  - name: {HELD_QUEUE}\n    held: true\n    quotas:\n      - {{flavor: h100, nominal: {{{GPU}: 1}}}}"
    )
    return (
        "flavors:\n  - name: h100\n    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n"
        f"queues:\n{queue_lines}\npriority_classes:\n  - {{name: normal, value: 0, default: true}}\n"
        f"pools:\n{pool_lines}"
    )
