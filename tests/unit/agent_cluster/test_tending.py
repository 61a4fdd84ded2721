"""What is done about gangs by a write and by the sweep behind it, at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from hanse.agent.cluster.kubernetes.chores import Wish
from hanse.agent.cluster.kubernetes.companions import Companions
from hanse.agent.cluster.kubernetes.hands import Hands
from hanse.agent.cluster.kubernetes.ledgers import Ledgers
from hanse.agent.cluster.kubernetes.making import Making
from hanse.agent.cluster.kubernetes.minding import Minding
from hanse.agent.cluster.kubernetes.mirror import Mirror
from hanse.agent.cluster.kubernetes.roots import Roots
from hanse.agent.cluster.kubernetes.settings import KubernetesSettings
from hanse.agent.cluster.kubernetes.tending import Tending
from hanse.agent.cluster.kubernetes.throttle import Throttle
from hanse.model.fence import GangKey
from tests.unit.agent_cluster.api_server import Script, serving, whole
from tests.unit.agent_cluster.objects import FEDERATION
from tests.unit.agent_cluster.test_ledgers import gang


async def _nobody(mirror: Mirror) -> None:
    assert mirror.strangers == {}


@asynccontextmanager
async def tended(folder: Path, mirror: Mirror) -> AsyncIterator[tuple[Tending, Script]]:
    settings = KubernetesSettings(requests_at_once_max=1)
    async with serving(folder, whole({"reason": "NotFound"}, 404)) as (api, script):
        hands = Hands(api, Throttle(per_s=1_000, burst=100, at_once=8))
        companions = Companions(api, hands.throttle, lambda: FEDERATION)
        ledgers, rng = Ledgers(api, settings, "pool"), Random(1)
        roots = Roots(api, ledgers, rng, mirror.touch)
        minding = Minding(Making(hands), ledgers, roots, settings, lambda: mirror)
        yield (
            Tending(hands, ledgers, settings, rng, lambda: mirror, companions, minding, _nobody, mirror.touch),
            script,
        )


async def test_a_gang_that_two_see_to_is_forgotten_once(tmp_path: Path) -> None:
    mirror, gangs = Mirror(FEDERATION), [gang(number) for number in range(4)]
    async with tended(tmp_path, mirror) as (tending, script):
        for key in gangs:
            tending.wish(key, Wish("jobs", forget=True))
        await asyncio.gather(tending.tend(gangs), tending.tend(gangs[-1:]))
        await tending.tend(gangs)
    assert {path.rpartition("/")[2] for path, _ in script.asked} == {f"hanse-{key.job}-1-0" for key in gangs}
    assert len(script.asked) == len(gangs), "none was asked for again"
    assert mirror.untended == {}


async def test_a_gang_that_is_forgotten_while_it_is_told_to_stop_is_not_over_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep that deletes its pods ends after the order to forget it has come: they are still to be removed."""
    mirror, key = Mirror(FEDERATION), gang(1)
    async with tended(tmp_path, mirror) as (tending, script):

        async def stop(todo: object) -> dict[GangKey, str]:
            tending.wish(key, Wish("jobs", forget=True))
            return {}

        tending.wish(key, Wish(grace_s=30))
        with monkeypatch.context() as patched:
            patched.setattr(tending, "_do", stop)
            await tending.tend([key])
        assert script.asked == []
        assert list(mirror.untended) == [key]
        await tending.tend([key])
        assert len(script.asked) == 1
