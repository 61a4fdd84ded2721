"""The archive of a simulated federation: lines on disks that outlive every process, and that are full at times."""

import asyncio
from collections.abc import Sequence
from typing import Final

from hanse.model.ids import JobId
from hanse.scheduler.shell.departures import ArchiveFailed
from hanse.scheduler.shell.ended import EndedJob
from tests.sim.weather import Weather

FULL_P: Final = 0.2
"""How likely it is, while there are faults, that a disk has no room."""


class FaultyArchive:
    """Every replica's archive. `lines`: how many a job has."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self.lines: dict[JobId, int] = {}

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        swarm = self._weather.swarm
        await asyncio.sleep(self._weather.lag(swarm.cluster_lag_s))
        if self._weather.hits(FULL_P if swarm.retain_age_s else 0.0):
            raise ArchiveFailed("the disk is full")
        for one in jobs:
            self.lines[one.job] = self.lines.get(one.job, 0) + 1
