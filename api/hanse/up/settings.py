"""Settings of a process: from a file, from the environment, from flags; the latter win.

Every process has one model. A field says what it means, why its default is what it is, and its unit is in its name;
`settings_reference` makes the page of it. The same field is `lease_ttl_s` in a file, `HANSE_GLOBAL_LEASE_TTL_S` in
the environment, and a flag of its own or `--set lease_ttl_s=12`.

What is misspelt must not be ignored: an unknown field of the file, an unknown `--set`, an unknown variable with the
process's prefix is refused with one line that names the place. What Kubernetes puts into the environment for a
Service of that name is not meant for us, and let pass.
"""

import json
import os
import re
import socket
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hanse.kit.logs import LogFormat
from hanse.kit.telemetry.running import TRACE_RATIO, TelemetryConfig, telemetry_config
from hanse.kit.tls import TlsFiles
from hanse.kit.version import own_version
from hanse.model.errors import InvalidArgument
from hanse.up.fleet_refusals import first_refusal, hint
from hanse.up.fleet_text import field_lines, only_document, plain

SETTINGS_BYTES_MAX: Final = 1 << 20
WHY: Final = "why"

_FROM_KUBERNETES: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$")

S = TypeVar("S", bound="ProcessSettings")


def setting(default: Any, meaning: str, *, why: str, **terms: Any) -> Any:
    """A field. `default` ... is required; `terms` are pydantic's (ge, le, …)."""
    return Field(default, description=meaning, json_schema_extra={WHY: why}, **terms)


def _split(value: object) -> object:
    """A list in one text: JSON, or with commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"is no JSON list: {error}") from None
    return [part.strip() for part in value.split(",") if part.strip()]


Split = BeforeValidator(_split)
Texts = Annotated[tuple[str, ...], NoDecode, Split]
"""Texts, in one text with commas, or a list."""


class LogLevel(StrEnum):
    """What is logged: this and worse."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ProcessSettings(BaseSettings):
    """What every process can be told."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    COMMAND: ClassVar[str] = ""
    FLAGS: ClassVar[Mapping[str, str]] = {}
    """Flags by field; the other fields are set by `--set`."""
    TRACED_UNLESS_TOLD: ClassVar[float] = TRACE_RATIO

    log_level: LogLevel = setting(
        LogLevel.INFO,
        "What is logged to stderr: this and worse.",
        why="One line for each move of a job; at hundreds of jobs a second `warning` is cheaper.",
    )
    log_format: LogFormat = setting(
        LogFormat.TEXT, "`text` for people, `json` for machines.", why="Both hold the same fields."
    )
    otlp: str = setting(
        "",
        "OpenTelemetry collector for traces and metrics: `HOST:PORT`, or `https://HOST:PORT` for TLS. Empty: as"
        " `OTEL_EXPORTER_OTLP_ENDPOINT` says, or none.",
        why="Nothing leaves a process unasked.",
    )
    prometheus: str = setting(
        "",
        "HOST:PORT at which Prometheus may scrape `/metrics`, and probes ask `/livez` and `/readyz`; port 0 takes a"
        " free one. Empty: nowhere.",
        why="Whoever reaches it may read it.",
    )
    trace_ratio: float | None = setting(
        None,
        "Share of jobs whose way is traced, of those that come without a traceparent, 0 to 1. None: as"
        f" `OTEL_TRACES_SAMPLER_ARG` says, or {TRACE_RATIO:g}; `hanse up` traces all.",
        why="One in twenty shows where time goes; every one is too dear at hundreds a second.",
        ge=0,
        le=1,
    )
    stop_on_eof: bool = setting(
        False,
        "Stop gracefully when stdin ends.",
        why="A supervisor that is killed leaves no orphans; off, because services have no stdin.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What `load` has gathered, and nothing behind its back."""
        return (init_settings,)

    @classmethod
    def prefix(cls) -> str:
        """With which its variables begin."""
        return f"HANSE_{cls.COMMAND.upper().replace('-', '_')}_"

    def telemetry_config(self, environment: Mapping[str, str]) -> TelemetryConfig:
        """What the process tells of itself, and where. Raises InvalidArgument."""
        return telemetry_config(
            f"hanse-{self.COMMAND}",
            environment,
            version=own_version(),
            instance=f"{socket.gethostname()}-{os.getpid()}",
            otlp=self.otlp,
            prometheus=self.prometheus,
            trace_ratio=self.trace_ratio,
            ratio_unless_told=self.TRACED_UNLESS_TOLD,
        )


def tls_of(ca: Path | None, cert: Path | None, key: Path | None) -> TlsFiles | None:
    """The files of one end of a connection; None if none is named."""
    return None if ca is cert is key is None else TlsFiles(ca, cert, key)


COMMON_FLAGS: Final = {"log_level": "--log-level", "log_format": "--log-format"}
TELEMETRY_FLAGS: Final = {"otlp": "--otlp", "prometheus": "--prometheus", "trace_ratio": "--trace-ratio"}


class _Environment(EnvSettingsSource):
    """Variables that are given, instead of the process's."""

    def __init__(self, model: type[ProcessSettings], variables: Mapping[str, str]) -> None:
        self._variables = {name.lower(): value for name, value in variables.items()}
        super().__init__(model, env_prefix=model.prefix(), case_sensitive=False)

    def _load_env_vars(self) -> Mapping[str, str]:
        return self._variables


def load(model: type[S], *, file: Path | None, flags: Mapping[str, object], environment: Mapping[str, str]) -> S:
    """The settings of one process.

    Args:
        flags: by field; what was not given is not in it.

    Raises:
        InvalidArgument: with the flag, the variable, or the path and line in the file.
    """
    mine = {name: value for name, value in environment.items() if name.startswith(model.prefix())}
    _check_known(mine, model)
    _check_flags(flags, model)
    read, lines = _read(file)
    variables = _Environment(model, mine)()
    try:
        return model(**{**read, **variables, **flags})
    except ValidationError as error:
        raise _placed(first_refusal(error, lines, model), model, flags, variables) from None


def pairs(model: type[ProcessSettings], texts: Iterable[str]) -> dict[str, str]:
    """What `--set NAME=VALUE` says. Raises InvalidArgument."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidArgument(f"{text!r} is not NAME=VALUE", reason="SETTING", path="--set")
        if name not in model.model_fields:
            what = f"no setting {name!r}{hint(name, list(model.model_fields))}"
            raise InvalidArgument(what, reason="UNKNOWN_SETTING", path="--set")
        found[name] = value
    return found


def why_of(field: FieldInfo) -> str:
    """Why a field's default is what it is."""
    extra = field.json_schema_extra
    return str(extra.get(WHY, "")) if isinstance(extra, dict) else ""


def _check_known(variables: Mapping[str, str], model: type[ProcessSettings]) -> None:
    known = [f"{model.prefix()}{name.upper()}" for name in model.model_fields]
    for name in sorted(variables):
        if name not in known and not _FROM_KUBERNETES.fullmatch(name):
            raise InvalidArgument(f"no setting of this name{hint(name, known)}", reason="UNKNOWN_SETTING", path=name)


def _check_flags(flags: Mapping[str, object], model: type[ProcessSettings]) -> None:
    unknown = sorted(set(flags) - set(model.model_fields))
    assert not unknown, unknown  # a command that offers a flag for a field that does not exist


def _read(file: Path | None) -> tuple[dict[str, Any], dict[str, int]]:
    """Values of the file, and the line of each."""
    if file is None:
        return {}, {}
    try:
        with file.open("rb") as opened:
            text = opened.read(SETTINGS_BYTES_MAX + 1)
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise InvalidArgument(f"{file} cannot be read: {why}", reason="FILE_UNREADABLE", path="--config") from None
    if len(text) > SETTINGS_BYTES_MAX:
        raise InvalidArgument(f"{file} has more than {SETTINGS_BYTES_MAX:,} bytes", path="--config")
    if not text.strip():
        return {}, {}
    document = only_document(text)
    values = plain(document)
    if not isinstance(values, dict):
        raise InvalidArgument("a file of settings is a mapping of fields", reason="INVALID", line=document.line)
    return values, dict(field_lines(document))


def _placed(
    refusal: InvalidArgument,
    model: type[ProcessSettings],
    flags: Mapping[str, object],
    variables: Mapping[str, object],
) -> InvalidArgument:
    """The refusal with the place that can be mended: the flag, the variable, or the line of the file."""
    name = re.split(r"[.\[]", refusal.path, maxsplit=1)[0]
    flag = model.FLAGS.get(name, f"--set {name}")
    message, path, line = refusal.message, refusal.path, refusal.line
    if name in flags:
        path, line = flag, 0
    elif name in variables:
        path, line = f"{model.prefix()}{name.upper()}", 0
    elif refusal.reason == "MISSING" and name == path:
        variable = f"{model.prefix()}{name.upper()}"
        message = f"no {name}: say {flag}, {variable}, or {name} in a file of settings; {_meaning(model, name)}"
        path = ""
    return InvalidArgument(message, reason=refusal.reason, path=path, line=line)


def _meaning(model: type[ProcessSettings], name: str) -> str:
    """What a field is, in the middle of a sentence."""
    text = (model.model_fields[name].description or "").removesuffix(".")
    return text[:1].lower() + text[1:]
