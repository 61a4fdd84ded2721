"""A deliberate bug that breaks no invariant and still takes away what a seed is for: an order left to hashing."""

from contextlib import ExitStack

from hanse.scheduler.core.world import World
from tests.sim.patching import original, swap


def walk_a_set(stack: ExitStack) -> None:
    """Roots are taken in the order of a set of their names."""
    sorted_names = original(World, "roots")

    def unordered(self: World) -> tuple[str, ...]:
        return tuple(set(sorted_names(self)))

    swap(stack, World, "roots", unordered)
