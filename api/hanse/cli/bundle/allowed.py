"""What may leave an installation in a support bundle: an allow-list, field by field. Pure.

What is not named here is left out, so a field that is added tomorrow is left out until somebody has looked at it.
Free text that people, manifests or clusters write (labels, reasons, messages, names of jobs) is never named; neither
are users. Names of pools, queues, flavors and replicas are: without them nothing can be told.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hanse.wire.json import Json

_STATUS_SERVER: Final = ("version", "federation", "store", "replica", "revision", "incarnation", "time_ms")
_REPLICA: Final = (
    *("id", "answers", "ready", "uptime_ms", "agents", "roots", "pending_jobs", "unsettled", "window_ms"),
    *("bound_per_s", "conflict_fraction", "refusal_fraction", "conflicts", "refusals", "takeovers", "fenced"),
    *("facts", "version", "clock_ahead_ms"),
)
_POOL_STATUS: Final = ("name", "state", "replica", "summary_age_ms", "gangs", "unacknowledged")
_POOL: Final = (
    *("name", "region", "dialect", "levels", "flavors", "nodes", "gpus", "free_gpus", "free_whole_hosts", "health"),
    *("attached", "cordoned", "summary_age_ms", "summary_exact", "gangs", "held_gangs", "stopping_gangs"),
    *("unusable_nodes", "largest_whole", "drain", "leave", "revision"),
)
_QUEUE: Final = ("name", "uid", "cohort", "quotas", "held", "limits", "apart", "created_ms", "revision", "status")
_FLAVOR: Final = ("name", "order", "revision")
_EVENT: Final = ("at", "kind", "job", "pool", "attempt", "reason", "revision")

LOG_FIELDS: Final = frozenset(
    {
        *(
            "time",
            "level",
            "event",
            "job",
            "jobs",
            "attempt",
            "part",
            "revision",
            "pool",
            "replica",
            "state",
            "reason",
        ),
        *("report", "outcome", "kept", "waited_s", "count", "gangs", "reports", "epoch", "root", "seconds"),
    }
)
SETTINGS_TOLD: Final = frozenset({"log_level", "log_format", "replica", "federation", "region", "dialect", "binder"})
"""Texts that are no secret; of all others a bundle says only whether they are set."""

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,120}")
"""A value that a log may show: one word, such as a name, a number, a time or a code."""

_EVENT_NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,60}")
_TEXT_LINE: Final = re.compile(r"(\d{4}-\d\d-\d\dT[0-9:.]+Z) (debug|info|warning|error|critical) +(\S+)(.*)")
_TEXT_FIELD: Final = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')


def picked(value: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """The named fields."""
    return {name: value[name] for name in names if name in value}


def status_told(value: Mapping[str, Json]) -> dict[str, Json]:
    """What is told of `hanse status`; its sentences, which quote people, are not."""
    return {
        "server": _one(value.get("server"), _STATUS_SERVER),
        "replicas": _many(value.get("replicas"), _REPLICA),
        "roots": _many(value.get("roots"), ("root", "replica", "alive", "wanted")),
        "pools": _many(value.get("pools"), _POOL_STATUS),
    }


def pools_told(values: Iterable[Mapping[str, Json]]) -> list[Json]:
    """What is told of pools."""
    return [picked(one, _POOL) for one in values]


def queues_told(values: Iterable[Mapping[str, Json]]) -> list[Json]:
    """What is told of queues."""
    return [picked(one, _QUEUE) for one in values]


def flavors_told(values: Iterable[Mapping[str, Json]]) -> list[Json]:
    """What is told of flavors, without what they require of nodes."""
    return [picked(one, _FLAVOR) for one in values]


def events_told(values: Iterable[Mapping[str, Json]]) -> list[Json]:
    """What is told of events, without their sentences and the names of jobs."""
    return [picked(one, _EVENT) for one in values]


def settings_told(values: Mapping[str, object], known: frozenset[str]) -> dict[str, Json]:
    """Settings that processes know: numbers and switches as they are, of texts only whether they are set."""
    told: dict[str, Json] = {}
    for name, value in values.items():
        if name not in known:
            continue
        if (
            isinstance(value, bool | int | float)
            or value is None
            or (name in SETTINGS_TOLD and isinstance(value, str) and _CODE.fullmatch(value))
        ):
            told[name] = value
        else:
            told[name] = "(set)" if value else "(empty)"
    return told


def log_told(lines: Iterable[str]) -> Iterator[str]:
    """Lines of a log, as JSON, with the fields that may be told; a line of another form is left out."""
    for line in lines:
        fields = _fields_of(line)
        if fields is None or not _EVENT_NAME.fullmatch(str(fields.get("event", ""))):
            continue
        told = {
            name: value
            for name, value in fields.items()
            if name in LOG_FIELDS and (isinstance(value, bool | int | float) or _CODE.fullmatch(str(value)))
        }
        yield json.dumps(told)


def _fields_of(line: str) -> dict[str, object] | None:
    if line.startswith("{"):
        try:
            found = json.loads(line)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None
    match = _TEXT_LINE.fullmatch(line.rstrip("\n"))
    if match is None:
        return None
    time, level, event, rest = match.groups()
    return {"time": time, "level": level, "event": event, **dict(_TEXT_FIELD.findall(rest))}


_METRIC: Final = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+|NaN|[+-]Inf)(?: \d+)?")
_LABEL: Final = re.compile(r'([a-z_]+)="([A-Za-z0-9_.:/+-]{0,120})"')


def metrics_told(page: str, names: frozenset[str]) -> Iterator[str]:
    """Lines of a page of Prometheus whose metric is one of these, with labels that are single words."""
    for line in page.splitlines():
        match = _METRIC.fullmatch(line)
        if match is None:
            continue
        name, labels, value = match.groups()
        base = re.sub(r"_(?:bucket|sum|count|total)$", "", name)
        if name not in names and base not in names:
            continue
        kept = ",".join(f'{key}="{text}"' for key, text in _LABEL.findall(labels or ""))
        yield f"{name}{{{kept}}} {value}" if kept else f"{name} {value}"


def _one(value: Json, names: Iterable[str]) -> Json:
    return picked(value, names) if isinstance(value, dict) else None


def _many(values: Json, names: Iterable[str]) -> Json:
    wanted = tuple(names)
    return [picked(one, wanted) for one in values if isinstance(one, dict)] if isinstance(values, list) else []
