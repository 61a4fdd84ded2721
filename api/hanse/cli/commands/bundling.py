"""`hanse support-bundle`: packs what somebody needs who helps from afar, and leaves out what is nobody's business."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.doctoring import DEADLINE_S, examined
from hanse.cli.failures import Failure
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import connected, session_of
from hanse.cli.settings import Settings
from hanse.model.errors import HanseError, InvalidArgument

if TYPE_CHECKING:
    from hanse.cli.doctor.gathering import Gathered
    from hanse.wire.json import Json

EVENTS_MAX: Final = 1_000
LOG_READ_BYTES_MAX: Final = 4 * 1024 * 1024
SETTINGS_BYTES_MAX: Final = 1024 * 1024
METRICS_BYTES_MAX: Final = 8 * 1024 * 1024
THINGS_MAX: Final = 2_000
"""Pools, queues and flavors each."""

PARTS: Final = ("grpcio", "protobuf", "numpy", "msgspec", "pydantic", "kubernetes", "aiomqtt", "numba", "typer")


def support_bundle(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to write it. [default: hanse-support-TIME.tar.gz]")
    ] = None,
    log: Annotated[
        list[Path] | None, typer.Option("--log", metavar="FILE", help="A log of a replica or an agent; repeatable.")
    ] = None,
    settings_file: Annotated[
        list[Path] | None,
        typer.Option("--settings", metavar="FILE", help="Settings of a process, as YAML; repeatable."),
    ] = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="HOST:PORT", help="Where a process is scraped, for a snapshot.")
    ] = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Pack what a helper needs: the doctor's findings, status, pools, queues, flavors, events, versions.

    Tokens, specs of jobs, their names and users, labels, messages and the texts of settings are left out: what is
    packed is listed field by field, and all else is not. Look into it before you send it. Nobody has to answer.

    \b
    hanse support-bundle
    hanse support-bundle case-7.tar.gz --log /var/log/hanse/r0.log --settings r0.yaml --metrics 127.0.0.1:9464
    """
    import asyncio

    from hanse.cli.amounts import counted
    from hanse.cli.bundle.packing import packed, write_bundle

    session = session_of(server, output)
    now = datetime.now(UTC)
    found = asyncio.run(examined(session.settings))
    events = asyncio.run(_events(session.settings)) if found.info is not None else []
    files = {
        **server_files(found, events),
        "versions.json": _text(_versions()),
        **_local_files(log or [], settings_file or [], metrics),
    }
    about = {
        "made": now.isoformat(timespec="seconds"),
        "command": found.version,
        "not_answered": {what: error.reason for what, error in sorted(found.refused.items())},
    }
    path = file or Path(f"hanse-support-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    data = packed(files, about, now_s=int(now.timestamp()))
    try:
        write_bundle(path, data)
    except OSError as error:
        raise Failure(
            InvalidArgument(f"cannot be written: {error.strerror}; name another file"), file=str(path)
        ) from None
    value = {"file": str(path), "bytes": len(data), "files": sorted(files)}
    session.say(
        value, lambda paper: f"{path}: {counted(len(files) + 1, 'file')}, {len(data):,} bytes; look into it first\n"
    )


def server_files(found: "Gathered", events: "list[dict[str, Json]]") -> dict[str, str]:
    """What the server told, as far as it did, and what is wrong with it; without the sentences."""
    from hanse.cli.bundle import allowed
    from hanse.cli.doctor.checks import findings
    from hanse.wire.json import message_to_json

    told = [{"code": one.code, "wrong": one.wrong, "page": one.page} for one in findings(found)]
    files = {"findings.json": _text(told)}
    if found.status is not None:
        files["status.json"] = _text(allowed.status_told(message_to_json(found.status)))
    if found.pools is not None:
        files["pools.json"] = _text(allowed.pools_told(map(message_to_json, found.pools[:THINGS_MAX])))
    if found.queues is not None:
        files["queues.json"] = _text(allowed.queues_told(map(message_to_json, found.queues[:THINGS_MAX])))
    if found.flavors is not None:
        files["flavors.json"] = _text(allowed.flavors_told(map(message_to_json, found.flavors[:THINGS_MAX])))
    if events:
        files["events.json"] = _text(allowed.events_told(events))
    return files


async def _events(settings: Settings) -> "list[dict[str, Json]]":
    from hanse.wire.json import event_to_json

    try:
        async with connected(settings, deadline_s=DEADLINE_S, tries_max=1) as client:
            return [
                event_to_json(event)
                async for answer in client.events(tail_events=EVENTS_MAX)
                for event in answer.events
            ]
    except HanseError:
        return []


def _local_files(logs: list[Path], settings: list[Path], metrics: str) -> dict[str, str]:
    """What lies on this machine. Raises Failure: a file that was named cannot be read."""
    from hanse.cli.bundle import allowed

    files: dict[str, str] = {}
    for number, path in enumerate(logs):
        lines = _tail(path).decode(errors="replace").splitlines()
        files[f"log-{number}.jsonl"] = "".join(f"{line}\n" for line in allowed.log_told(lines))
    for number, path in enumerate(settings):
        files[f"settings-{number}.json"] = _text(allowed.settings_told(_settings(path), _setting_names()))
    if metrics:
        files["metrics.txt"] = "".join(
            f"{line}\n" for line in allowed.metrics_told(_scraped(metrics), _metric_names())
        )
    return files


def _tail(path: Path) -> bytes:
    """The last bytes of a file, whole lines."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_READ_BYTES_MAX))
            data = file.read(LOG_READ_BYTES_MAX)
    except OSError as error:
        raise Failure(InvalidArgument(f"cannot be read: {error.strerror}"), file=str(path)) from None
    return data.partition(b"\n")[2] if size > LOG_READ_BYTES_MAX else data


def _settings(path: Path) -> dict[str, object]:
    from hanse.up.fleet_text import only_document, plain

    text = _tail(path)[:SETTINGS_BYTES_MAX]
    try:
        found = plain(only_document(text)) if text.strip() else {}
    except InvalidArgument as error:
        raise Failure(error, file=str(path)) from None
    return found if isinstance(found, dict) else {}


def _setting_names() -> frozenset[str]:
    """Of every process."""
    from hanse.up.agent_settings import AgentSettings
    from hanse.up.global_settings import GlobalSettings
    from hanse.up.sim_settings import SimClusterSettings
    from hanse.up.up_settings import UpSettings

    models = (AgentSettings, GlobalSettings, SimClusterSettings, UpSettings)
    return frozenset(name for model in models for name in model.model_fields)


def _scraped(address: str) -> str:
    """A page of metrics. Raises Failure: nobody answers there."""
    from http.client import HTTPConnection, HTTPException

    try:
        connection = HTTPConnection(address, timeout=DEADLINE_S)
        connection.request("GET", "/metrics")
        return connection.getresponse().read(METRICS_BYTES_MAX).decode(errors="replace")
    except (OSError, HTTPException, ValueError) as error:
        raise Failure(InvalidArgument(f"--metrics: {address} gives no metrics ({error})", path="metrics")) from None


def _metric_names() -> frozenset[str]:
    """Of all instruments, as Prometheus knows them without what it adds at the end."""
    from hanse.kit.telemetry import metrics
    from hanse.kit.telemetry.exposition import metric_name

    return frozenset(metric_name(one) for one in metrics.REGISTRY.instruments.values())


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from hanse.kit.version import own_version

    found = {"hanse": own_version(), "python": platform.python_version(), "system": platform.system()}
    for part in PARTS:
        try:
            found[part] = version(part)
        except PackageNotFoundError:
            found[part] = ""
    return found


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
