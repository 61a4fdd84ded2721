"""The fleet that benches measure on: equal pools of racks of 25 hosts in blocks of 8 racks, and queues that lend each
other nothing."""

from typing import Final

GPU: Final = "nvidia.com/gpu"
GPUS_PER_NODE: Final = 8
NODES_PER_BLOCK: Final = 200


def fleet_text(
    pools: int, nodes: int, queues: int, *, run_s: float, start_s: float = 0.2, start_jitter_s: float = 0.1
) -> str:
    """A fleet file. `nodes` of each pool are rounded down to whole blocks, of which there is at least one."""
    pool_lines = "\n".join(
        f"  - name: pool-{n:02d}\n    region: r{n % 4}\n    dialect: generic\n"
        f"    run_s: {run_s}\n    start_s: {start_s}\n    start_jitter_s: {start_jitter_s}\n"
        f"    groups:\n      - node_prefix: p{n:02d}\n        gpu: h100\n        levels:\n"
        f"          - {{name: block, count: {max(1, nodes // NODES_PER_BLOCK)}}}\n"
        "          - {name: rack, count: 8}\n          - {name: host, count: 25}\n"
        for n in range(pools)
    )
    queue_lines = "\n".join(
        f"  - name: team-{n}\n    quotas:\n      - {{flavor: h100, nominal: {{{GPU}: 1000000}}}}"
        for n in range(queues)
    )
    return (
        "flavors:\n  - name: h100\n    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n"
        f"queues:\n{queue_lines}\npriority_classes:\n  - {{name: normal, value: 0, default: true}}\n"
        f"pools:\n{pool_lines}"
    )
