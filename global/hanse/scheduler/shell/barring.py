"""Which certificates are believed no more: by what stands for somebody, or by its number.

What is barred is in the store, in the range that every replica follows, so each knows it as soon as it knows a
binding. A mark of somebody bars the certificates that began until then: he may come back with a newer one. A mark of
a number bars that certificate alone; an agent whose key was stolen is barred by its pool, since the thief may have
renewed what he has.
"""

from hanse.kit.trust.shown import Shown
from hanse.scheduler.core.world import World
from hanse.store import keys


def is_barred(world: World, shown: Shown) -> bool:
    """Whether the certificate is revoked, as far as this replica knows."""
    if keys.barred_serial(shown.serial) in world.barred:
        return True
    if shown.identity is None:
        return False
    until_ms = world.barred.get(keys.barred(shown.identity.kind, shown.identity.name))
    return until_ms is not None and shown.begins_ms <= until_ms
