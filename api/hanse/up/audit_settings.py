"""Settings of the audit log, the same for every process that has an API or a scheduler in it."""

from pathlib import Path
from typing import Any, Final

from hanse.kit.clock import Clock
from hanse.up.audit_files import AuditLimits, FileAudit
from hanse.up.options import default_data
from hanse.up.settings import setting

NO_AUDIT: Final = "none"
_LIMITS: Final = AuditLimits()


def audit_setting(default: str) -> Any:
    """Of `audit_dir`; `default` says in words what an empty one means."""
    return setting(
        "",
        "Folder of the files in which it stands who changed what, what was decided, and why; `hanse audit` reads"
        f" them. Empty: {default}. `{NO_AUDIT}`: nothing is written down.",
        why="Whoever asks who cancelled a job asks afterwards.",
    )


def audit_file_bytes_setting() -> Any:
    """Of `audit_file_bytes_max`."""
    return setting(
        _LIMITS.file_bytes_max,
        "A file of the audit log that has reached this size, in bytes, is followed by a new one.",
        why="A quarter of a million records; a size that tools still open.",
        ge=1 << 16,
        le=1 << 32,
    )


def audit_files_setting() -> Any:
    """Of `audit_files_max`."""
    return setting(
        _LIMITS.files_max,
        "Files of the audit log that are kept; beyond it the oldest are removed.",
        why="A gibibyte in all. Ship them elsewhere to keep them for longer.",
        ge=2,
        le=10_000,
    )


def opened_audit(text: str, replica: str, clock: Clock, limits: AuditLimits = _LIMITS) -> FileAudit | None:
    """The log that a setting names: `none`, a folder, or "" for the one below the user's data."""
    if text == NO_AUDIT:
        return None
    folder = Path(text).expanduser() if text else Path(default_data()) / "audit"
    return FileAudit(folder, replica, clock, limits)
