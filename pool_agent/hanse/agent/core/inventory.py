"""The nodes of one pool as arrays in topology order."""

from hanse.agent.core.facts import NodeFacts

__all__ = ["NodeFacts"]
