"""The reference of the fleet file, made from its models: a page for people, a JSON schema for editors.

    python -m hanse.up.fleet_reference docs/reference

writes both; a test holds that what is committed is what the models say.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic.fields import FieldInfo

from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV, START_ENV
from hanse.up.fleet_dialects import DIALECTS
from hanse.up.fleet_file import BusyModel, DeviceGroupModel, FleetModel, GroupModel, LevelModel, PoolModel, TaintModel
from hanse.up.fleet_gpus import GPU_MODELS

PAGE: Final = "fleet.md"
SCHEMA: Final = "fleet.schema.json"

_SECTIONS: Final = (
    ("The file", FleetModel),
    ("pools[]", PoolModel),
    ("pools[].groups[]", GroupModel),
    ("pools[].groups[].levels[]", LevelModel),
    ("pools[].groups[].busy", BusyModel),
    ("pools[].groups[].devices[]", DeviceGroupModel),
    ("pools[].groups[].taints[]", TaintModel),
)
_HEAD: Final = f"""# The fleet file

A fleet file says which clusters `hanse up --fleet FILE` simulates, what is on them already, and which flavors,
queues, cohorts and priority classes there are to begin with. Without one, the demo's fleet is used
(`api/hanse/up/demo_fleet.yaml`, a good one to copy). The [JSON schema](fleet.schema.json) lets an editor check it.

The smallest one:

```yaml
flavors: [{{name: h100}}]
queues: [{{name: default, quotas: [{{flavor: h100, nominal: {{nvidia.com/gpu: 64}}}}]}}]
pools:
  - name: lab
    groups:
      - gpu: h100
        levels: [{{name: rack, count: 4}}, {{name: host, count: 8}}]
```

Nodes are named after their domains (`lab-r2-h5`), and `hanse sim fail lab/r2/h5` or `lab/r2` names them so. A job may
say how its simulated pods behave: `sleep N` as command, or in the environment `{RUNTIME_ENV}` (seconds),
`{START_ENV}` (seconds until they run) and `{EXIT_ENV}` (0 to 255). Real clusters ignore these.

What runs on a simulated cluster runs on whoever serves it: its state is kept in a folder, and what was due meanwhile
has happened when somebody looks again. A file that was edited may be used with the state of the old one: nodes are
the same if their names are, and pods on nodes that no longer exist are lost.
"""


def reference_page() -> str:
    """The page, as committed."""
    parts = [_HEAD, *(_section(title, model) for title, model in _SECTIONS), _models(), _dialects()]
    return "\n".join(parts)


def schema_text() -> str:
    """The JSON schema, as committed."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hanse fleet file",
        **{key: value for key, value in FleetModel.model_json_schema().items() if key != "title"},
    }
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode() + "\n"


def _section(title: str, model: Any) -> str:
    lines = [f"## {title}", "", " ".join(model.__doc__.split()), "", "| field | default | meaning |", "|---|---|---|"]
    lines += [_row(name, field) for name, field in model.model_fields.items()]
    return "\n".join([*lines, ""])


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split())
    return f"| `{name}` | {_default(field)} | {meaning} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, "", [], {}) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _models() -> str:
    lines = ["## GPU models", "", "| `gpu` | label | GPUs | cpu | memory |", "|---|---|---|---|---|"]
    for name, model in GPU_MODELS.items():
        lines.append(f"| `{name}` | {model.product} | {model.per_host} | {model.host_cpu} | {model.host_memory} |")
    return "\n".join([*lines, ""])


def _dialects() -> str:
    lines = ["## Dialects", "", "| `dialect` | level | label |", "|---|---|---|"]
    return "\n".join([*lines, *_dialect_rows(), ""])


def _dialect_rows() -> Iterator[str]:
    for dialect, levels in DIALECTS.items():
        yield from (f"| `{dialect}` | `{level}` | `{key}` |" for level, key in levels.items())


def main(folder: Path) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_text(reference_page(), encoding="utf-8")
    (folder / SCHEMA).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
