"""What a node tells of its devices: which of them are near each other inside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """GPUs of a node that share one PCIe root or switch, in one NUMA node.

    Attributes:
        numa, pcie: its names on its node; "" where it is not known.
        nics: network interfaces beside them.
    """

    numa: str
    pcie: str
    gpus: int
    nics: int = 0

    def named(self, kind: str) -> str:
        """Its name as one of `job.DEVICE_KINDS`, "" if it is not known."""
        return self.numa if kind == "numa" else self.pcie
