"""Settings of what leaves the store and where it goes, the same for every process that has a scheduler in it."""

import logging
from pathlib import Path
from typing import Any, Final

from hanse.kit.clock import Clock
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.shell.departures import Archive, NoArchive
from hanse.up.archive import FileArchive
from hanse.up.options import default_data
from hanse.up.settings import setting

log = logging.getLogger(__name__)

NO_ARCHIVE: Final = "none"

_RETENTION: Final = Retention()
_YEAR_S: Final = 366 * 86_400


def age_setting() -> Any:
    """Of `retain_terminal_age_s`."""
    return setting(
        _RETENTION.age_s,
        "How long the store keeps a job that has ended, in seconds; then it is archived and dropped.",
        why="For a day people ask how last night's jobs went.",
        ge=0,
        le=_YEAR_S,
    )


def jobs_max_setting() -> Any:
    """Of `retain_terminal_jobs_max`."""
    return setting(
        _RETENTION.jobs_max,
        "Ended jobs that the store keeps, however young; beyond it the oldest are archived and dropped.",
        why="About a quarter of etcd's default quota; see [capacity](capacity.md).",
        ge=0,
        le=10_000_000,
    )


def archive_setting(default: str) -> Any:
    """Of `archive_dir`; `default` says in words what an empty one means."""
    return setting(
        "",
        f"Folder of the files in which ended jobs are kept when the store drops them. Empty: {default}."
        f" `{NO_ARCHIVE}`: they are dropped, and nothing is kept.",
        why="What ran where is asked for after months; an empty folder costs nothing.",
    )


def opened_archive(text: str, replica: str, clock: Clock) -> Archive:
    """The archive that a setting names: `none`, a folder, or "" for the one below the user's data.

    A folder that cannot be written is told, and no reason not to start: what has ended stays in the store meanwhile.
    """
    if text == NO_ARCHIVE:
        return NoArchive()
    folder = Path(text).expanduser() if text else Path(default_data()) / "archive"
    archive = FileArchive(folder, replica, clock)
    if trouble := archive.check():
        log.warning("archive_unusable", extra={"cause": trouble})
    return archive
