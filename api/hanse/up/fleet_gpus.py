"""GPU models that a fleet file can name, and what a host with them usually looks like.

The labels are those that NVIDIA's feature discovery and AMD's labeller write, so that flavors which select real nodes
select simulated ones too. Everything about a host can be set otherwise in the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.model.resources import NVIDIA_GPU

AMD_GPU: Final = "amd.com/gpu"
_NO_TYPES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One model, and its usual host.

    Attributes:
        memory_mib: of one GPU, as the label says.
        per_host: GPUs.
        instance_types: machine type by dialect.
    """

    product: str
    family: str
    memory_mib: int
    per_host: int
    host_cpu: str
    host_memory: str
    resource: str = NVIDIA_GPU
    instance_types: Mapping[str, str] = field(default_factory=lambda: _NO_TYPES)

    def labels(self, gpus: int, dialect: str) -> dict[str, str]:
        """Labels of a host with so many of them."""
        machine = self.instance_types.get(dialect)
        found = {"node.kubernetes.io/instance-type": machine} if machine else {}
        if self.resource == AMD_GPU:
            return {**found, "amd.com/gpu.product-name": self.product, "amd.com/gpu.family": self.family}
        return {
            **found,
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.family": self.family,
            "nvidia.com/gpu.memory": str(self.memory_mib),
            "nvidia.com/gpu.count": str(gpus),
        }


GPU_MODELS: Final[Mapping[str, GpuModel]] = {
    "a100": GpuModel(
        "NVIDIA-A100-SXM4-80GB",
        "ampere",
        81_920,
        8,
        "96",
        "1152Gi",
        instance_types={"gke": "a2-ultragpu-8g", "aws": "p4de.24xlarge", "oci": "BM.GPU.A100-v2.8"},
    ),
    "h100": GpuModel(
        "NVIDIA-H100-80GB-HBM3",
        "hopper",
        81_559,
        8,
        "192",
        "2048Gi",
        instance_types={"gke": "a3-megagpu-8g", "aws": "p5.48xlarge", "oci": "BM.GPU.H100.8"},
    ),
    "h200": GpuModel(
        "NVIDIA-H200",
        "hopper",
        143_771,
        8,
        "192",
        "2048Gi",
        instance_types={"gke": "a3-ultragpu-8g", "aws": "p5en.48xlarge", "oci": "BM.GPU.H200.8"},
    ),
    "b200": GpuModel(
        "NVIDIA-B200",
        "blackwell",
        183_359,
        8,
        "224",
        "3840Gi",
        instance_types={"gke": "a4-highgpu-8g", "aws": "p6-b200.48xlarge", "oci": "BM.GPU.B200.8"},
    ),
    "gb200": GpuModel(
        "NVIDIA-GB200",
        "blackwell",
        189_471,
        4,
        "144",
        "960Gi",
        instance_types={"gke": "a4x-highgpu-4g", "aws": "p6e-gb200.36xlarge", "oci": "BM.GPU.GB200.4"},
    ),
    "gb300": GpuModel(
        "NVIDIA-GB300", "blackwell", 284_208, 4, "144", "960Gi", instance_types={"oci": "BM.GPU.GB300.4"}
    ),
    "l40s": GpuModel(
        "NVIDIA-L40S", "ada-lovelace", 46_068, 8, "128", "1024Gi", instance_types={"oci": "BM.GPU.L40S.4"}
    ),
    "mi300x": GpuModel(
        "AMD_Instinct_MI300X_OAM",
        "AI",
        196_592,
        8,
        "192",
        "2048Gi",
        AMD_GPU,
        {"oci": "BM.GPU.MI300X.8"},
    ),
}
NO_GPU: Final = "none"
CPU_HOST: Final = ("64", "256Gi")  # cpu and memory of a host without GPUs
