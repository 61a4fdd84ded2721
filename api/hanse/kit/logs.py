"""Structured logs: a constant event name plus fields, one line each, never a sentence that has to be parsed.

Code logs with `log.info("job_moved", extra={"job": …})`. What it passes as `extra` becomes fields, in the order in
which it was given. People read `key=value`, machines JSON; both hold the same. A value is cut after
FIELD_CHARS_MAX characters and stays on its line, so that what a tenant names cannot forge another line.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

FIELD_CHARS_MAX: Final = 500

_STANDARD: Final = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime"}


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What the caller passed as `extra`."""
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _plain(value: object) -> str:
    text = str(value)
    cut = text if len(text) <= FIELD_CHARS_MAX else text[:FIELD_CHARS_MAX] + "…"
    return cut.encode("unicode_escape").decode() if not cut.isprintable() else cut


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z info  job_moved job=… attempt=2`."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{_time(record)} {record.levelname.lower():<7} {_plain(record.getMessage())}"]
        for key, value in fields_of(record).items():
            text = _plain(value)
            parts.append(f"{key}={json.dumps(text, ensure_ascii=False) if ' ' in text or not text else text}")
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `event`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        known = {"time": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        rest: dict[str, object] = {
            key: value if isinstance(value, int | float | bool) else _plain(value)
            for key, value in fields_of(record).items()
            if key not in known
        }
        if record.exc_info:
            rest["exception"] = self.formatException(record.exc_info)
        return json.dumps({**known, **rest}, ensure_ascii=False)


def configure(level: str = "warning", style: LogFormat = LogFormat.TEXT) -> None:
    """Send all logs of this process to stderr; replaces what was configured before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
