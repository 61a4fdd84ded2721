"""The reference page of settings, made from the models themselves.

To write it anew: `python -m hanse.up.settings_reference docs/reference`. A test compares the committed page with what
this makes, so that it is never out of date.
"""

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo

from hanse.up.agent_settings import AgentSettings, LevelSettings, PoolSettings
from hanse.up.global_settings import GlobalSettings
from hanse.up.settings import ProcessSettings, why_of
from hanse.up.sim_settings import SimClusterSettings
from hanse.up.up_settings import UpSettings

PAGE: Final = "settings.md"
PROCESSES: Final[tuple[type[ProcessSettings], ...]] = (GlobalSettings, AgentSettings, SimClusterSettings, UpSettings)
PARTS: Final = (("A pool of `pools`", PoolSettings), ("A level of `levels`", LevelSettings))

HEAD: Final = """# Settings of processes

Made by `python -m hanse.up.settings_reference docs/reference` from the settings themselves.

Each process takes its settings from four places, and the first that has one wins: flags, the environment, the file
that `--config FILE` names, the default. A file is YAML with the names below:

```yaml
store: etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379
bus: mqtt://10.0.0.5:1883
listen: 127.0.0.1:7311
lease_ttl_s: 15
```

In the environment the same is `HANSE_GLOBAL_LEASE_TTL_S=15`: the prefix of the process, then the name in capitals. A
setting without a flag of its own is `--set lease_ttl_s=15`. A list in one text has commas between its parts, or is
JSON. Units are in the names: `_s` are seconds, `_bytes` bytes; `_max` is the most there may be.

A name that does not exist is refused, with the one that it may have been meant to be. Variables that Kubernetes makes
for a Service of the same name (`HANSE_GLOBAL_SERVICE_HOST`, `HANSE_GLOBAL_PORT_…`) are no settings.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for model in PROCESSES for line in _process(model)), *_parts()])


def _process(model: type[ProcessSettings]) -> Iterator[str]:
    yield f"## `hanse {model.COMMAND}`\n"
    yield " ".join((model.__doc__ or "").split()) + f" Its variables begin with `{model.prefix()}`.\n"
    yield "| setting | default | meaning | why |\n|---|---|---|---|"
    own = [name for name in model.model_fields if name not in ProcessSettings.model_fields]
    for name in (*own, *ProcessSettings.model_fields):
        flag = model.FLAGS.get(name)
        yield _row(f"`{name}`" + (f" `{flag}`" if flag else ""), model.model_fields[name])
    yield ""


def _parts() -> Iterator[str]:
    for title, model in PARTS:
        yield f"### {title}\n"
        yield "| field | default | meaning | why |\n|---|---|---|---|"
        for name, field in model.model_fields.items():
            yield _row(f"`{name}`", field)
        yield ""


def _row(name: str, field: FieldInfo) -> str:
    cells = (name, _default(field), field.description or "", why_of(field))
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    value: Any = field.default  # Any: of every type that a setting has
    if field.is_required():
        return "required"
    if value in (None, "", (), {}):
        return ""
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return (
        f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value:g}`" if _is_real(value) else f"`{value}`"
    )


def _is_real(value: object) -> bool:
    return isinstance(value, float)


def main(folder: Path) -> None:
    """Write the page."""
    (folder / PAGE).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
