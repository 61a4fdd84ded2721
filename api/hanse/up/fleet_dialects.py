"""Which labels carry the topology, vendor by vendor, under the short names that people use for levels.

Order within a dialect is coarse to fine. Directions differ between vendors: AWS numbers its layers from the spine
down, Topograph its tiers from the host up. A level that a vendor has no label for can be given one in the file;
in the generic dialect every other name makes a label of its own.
"""

from collections.abc import Mapping
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
CLIQUE: Final = "nvidia.com/gpu.clique"

GENERIC: Final = "generic"
GENERIC_LEVEL: Final = "cloud.provider.com/topology-"

DIALECTS: Final[Mapping[str, Mapping[str, str]]] = {
    GENERIC: {
        "block": "cloud.provider.com/topology-block",
        "rack": "cloud.provider.com/topology-rack",
        "nvlink": CLIQUE,
        "host": HOSTNAME,
    },
    "gke": {
        "block": "cloud.google.com/gce-topology-block",
        "rack": "cloud.google.com/gce-topology-subblock",
        "nvlink": CLIQUE,
        "host": "cloud.google.com/gce-topology-host",
    },
    "aws": {
        "spine": "topology.k8s.aws/network-node-layer-1",
        "block": "topology.k8s.aws/network-node-layer-2",
        "rack": "topology.k8s.aws/network-node-layer-3",
        "nvlink": "topology.k8s.aws/ultraserver-id",
        "host": HOSTNAME,
    },
    "oci": {
        "island": "oci.oraclecloud.com/rdma.hpc_island_id",
        "block": "oci.oraclecloud.com/rdma.network_block_id",
        "rack": "oci.oraclecloud.com/rdma.local_block_id",
        "nvlink": "oci.oraclecloud.com/host.gpu_memory_fabric_id",
        "host": "oci.oraclecloud.com/rdma.host_id",
    },
    "coreweave": {
        "fabric": "backend.coreweave.cloud/fabric",
        "block": "backend.coreweave.cloud/superpod",
        "rack": "backend.coreweave.cloud/leafgroup",
        "nvlink": "ds.coreweave.com/nvlink.domain",
        "host": HOSTNAME,
    },
    "topograph": {
        "core": "fabric.topograph.run/tier-2",
        "block": "fabric.topograph.run/tier-1",
        "rack": "fabric.topograph.run/tier-0",
        "nvlink": "accelerator.topograph.run/domain",
        "host": HOSTNAME,
    },
    "crusoe": {
        "block": "crusoe.ai/pod.id",
        "rack": "crusoe.ai/ib.partition.id",
        "nvlink": CLIQUE,
        "host": HOSTNAME,
    },
    "azure": {"nvlink": CLIQUE, "host": HOSTNAME},
}
