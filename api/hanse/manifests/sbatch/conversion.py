"""Components and arrays of a script to jobs, by way of the native form: a level, an amount or a name means the same
here as in a native file and is refused in the same words, blamed on the option that it came from."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hanse.manifests.converted import Converted, ImportedJob, Origin, Unmapped
from hanse.manifests.sbatch.component import Component, read_component
from hanse.manifests.sbatch.options import OPTIONS, Fate
from hanse.manifests.sbatch.prologue import PROLOGUE
from hanse.manifests.sbatch.script import Option, Script, read_script
from hanse.manifests.sbatch.values import Array, array, minutes_s
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

NAME_CHARS_MAX: Final = 63
POD_SET: Final = "node"
KIND: Final = "sbatch"
_CARRIED: Final = ("time", "mem", "job-name")  # by later components of a hetjob
_LATE_WHY: Final = "it stands after the first command, where sbatch does not read it"
_EXPORT_WHY: Final = "variables of the submitting shell are not taken along; write NAME=VALUE"

Convert = Callable[[str], Converted]


@dataclass(slots=True)
class _Noted:
    found: list[Unmapped] = field(default_factory=list)

    def add(self, option: Option, why: str) -> None:
        self.found.append(Unmapped(option.shown, option.line, why))


def is_script(text: str | bytes) -> bool:
    """Whether this is a batch script: its first line says what runs it."""
    return text[:2] in ("#!", b"#!")


def convert_script(
    text: str | bytes,
    native: Convert,
    *,
    given: Sequence[Option] = (),
    words: Sequence[str] = (),
    filename: str = "",
) -> Converted:
    """The jobs of a batch script: one, or one for each task of its array.

    Args:
        native: reads the native form.
        given: options of the command line, which count over those of the script.
        words: arguments of the script.
        filename: names the job if no option does.

    Raises:
        InvalidArgument: with the option as its path, and the line of the script.
    """
    script = read_script(_decoded(text))
    named = Option(OPTIONS["job-name"], filename.rpartition("/")[2] or KIND, 0)
    components = _components(script, given, named)
    noted = _Noted()
    for line in script.late:
        noted.found.append(Unmapped("#SBATCH", line, _LATE_WHY))
    _account(components, noted)
    tasks = _array(components[0], noted)
    sets = [_read(components, index, noted) for index in range(len(components))]
    jobs = [
        _job(script, components[0], sets, words, native, tasks, task) for task in (tasks.tasks if tasks else (None,))
    ]
    return Converted(tuple(jobs), tuple(sorted(noted.found, key=lambda one: (one.line, one.path))))


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the script is not UTF-8; save it as such", reason="SCRIPT", line=1) from None


def _components(script: Script, given: Sequence[Option], named: Option) -> list[dict[str, Option]]:
    """What was given on the command line counts for the first component, as with sbatch without a colon."""
    first, *later = script.components
    out = [{"job-name": named} | first | {option.kind.name: option for option in given}]
    for options in later:
        carried: dict[str, Option] = {name: out[-1][name] for name in _CARRIED if name in out[-1]}
        out.append({**carried, **options})
    return out


def _account(components: Sequence[Mapping[str, Option]], noted: _Noted) -> None:
    for option in [option for options in components for option in options.values()]:
        if option.kind.fate is Fate.REFUSED:
            option.refuse("NOT_SUPPORTED", option.kind.why)
        if option.kind.fate is Fate.NOTED and option.kind.why:
            noted.add(option, option.kind.why)


def _array(options: Mapping[str, Option], noted: _Noted) -> Array | None:
    if "array" not in options:
        return None
    found = array(options["array"])
    if found.at_once:
        noted.add(
            options["array"], f"more than {found.at_once} of its tasks may run at once; a queue's limit bounds them"
        )
    return found


def _read(components: Sequence[Mapping[str, Option]], index: int, noted: _Noted) -> Component:
    name = POD_SET if len(components) == 1 else f"{POD_SET}-{index}"
    nodes = components[index].get("nodes")
    if len(components) > 1 and nodes and "-" in nodes.value:
        nodes.refuse("NOT_SUPPORTED", "a component of a hetjob has a fixed number of nodes; write one")
    return read_component(name, components[index], noted.add)


def _job(
    script: Script,
    options: Mapping[str, Option],
    sets: Sequence[Component],
    words: Sequence[str],
    native: Convert,
    tasks: Array | None,
    task: int | None,
) -> ImportedJob:
    document, blames = _head(options, task)
    first_rank = 0
    listed = []
    for index, one in enumerate(sets):
        env = _environment(script, one, tasks, task, first_rank if len(sets) > 1 else 0)
        command = ["/bin/sh", "-c", PROLOGUE, "sbatch", *words]
        listed.append({**one.native, "command": command, "env": env})
        blames |= {f"pod_sets[{index}].{key}": option for key, option in one.blames.items()}
        first_rank += one.layout.nodes
    document["pod_sets"] = listed
    try:
        (job,) = native(json.dumps(document)).jobs
    except InvalidArgument as error:
        raise _blamed(error, blames) from None
    return replace(job, kind=KIND, origins=_origins(blames))


def _head(options: Mapping[str, Option], task: int | None) -> tuple[dict[str, object], dict[str, Option]]:
    document: dict[str, object] = {"apiVersion": "hanse/v1", "kind": "Job"}
    blames: dict[str, Option] = {}
    for key, value, option in _said(options, task):
        document[key] = value
        if option:
            blames[key] = option
    return document, blames


def _said(options: Mapping[str, Option], task: int | None) -> Iterator[tuple[str, object, Option | None]]:
    own = name_of(options["job-name"].value)
    yield "name", own if task is None else f"{own}-{task}", options["job-name"]
    queue = next((options[key] for key in ("queue", "partition", "account") if key in options), None)
    if queue:
        yield "queue", queue.value.split(",")[0], queue
    if "qos" in options:
        yield "priority_class", options["qos"].value, options["qos"]
    labels = {key: _label(options[key].value) for key in ("account", "comment") if key in options}
    if labels:
        yield "labels", {f"slurm.hanse.dev/{key}": value for key, value in labels.items()}, options.get("account")
    if "time" in options and (limit := minutes_s(options["time"])):
        yield "duration", limit, options["time"]
    if "no-requeue" in options:
        yield "restart", {"on_infrastructure": "fail"}, options["no-requeue"]


def name_of(text: str) -> str:
    """A job's name as Hanse writes it: `My_Job 1` is `my-job-1`, `train.sh` is `train`."""
    plain = re.sub(r"\.(sh|sbatch|slurm|job)$", "", text.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain)[:NAME_CHARS_MAX].strip("-") or KIND


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:NAME_CHARS_MAX].strip("-_.")


def _environment(
    script: Script, one: Component, tasks: Array | None, task: int | None, first_rank: int
) -> dict[str, str]:
    options, layout = one.options, one.layout
    env = {
        "HANSE_SCRIPT": script.text,
        "HANSE_POD_SET": one.name,
        "SLURM_NTASKS_PER_NODE": str(layout.tasks_per_node),
        "SLURM_CPUS_PER_TASK": str(layout.cpus_per_task),
        "SLURM_JOB_NAME": options["job-name"].value,
    }
    if layout.least == layout.nodes:
        env |= {"SLURM_NNODES": str(layout.nodes), "SLURM_NTASKS": str(_tasks(one))}
    if "exclusive" not in options:
        cpus = layout.tasks_per_node * layout.cpus_per_task
        env |= {"SLURM_CPUS_ON_NODE": str(cpus), "SLURM_JOB_CPUS_PER_NODE": f"{cpus}(x{layout.nodes})"}
    if first_rank:
        env["HANSE_FIRST_RANK"] = str(first_rank)
    if layout.devices.number:
        env |= {"SLURM_GPUS_ON_NODE": str(layout.devices.number), "SLURM_GPUS_PER_NODE": str(layout.devices.number)}
    env |= {
        variable: options[name].value
        for variable, name in (
            ("SLURM_JOB_PARTITION", "partition"),
            ("SLURM_JOB_ACCOUNT", "account"),
            ("SLURM_JOB_QOS", "qos"),
            ("SLURM_JOB_SEGMENT_SIZE", "segment"),
            ("HANSE_STDIN", "input"),
        )
        if name in options
    }
    return env | _files(options, task) | _of_array(tasks, task) | _exported(options)


def _tasks(one: Component) -> int:
    written = one.options.get("ntasks")
    return int(written.value) if written and written.value.isdigit() else one.layout.nodes * one.layout.tasks_per_node


def _files(options: Mapping[str, Option], task: int | None) -> dict[str, str]:
    env = {}
    for variable, name in (("HANSE_STDOUT", "output"), ("HANSE_STDERR", "error")):
        if name in options:
            env[variable] = _named(options[name].value, options, task)
    chdir = options.get("chdir") or options.get("container-workdir")
    if chdir:
        env |= {"HANSE_CHDIR": chdir.value, "SLURM_SUBMIT_DIR": chdir.value}
    if "open-mode" not in options or options["open-mode"].value == "truncate":
        env |= {"HANSE_TRUNCATE": "1"} if env else {}
    elif options["open-mode"].value != "append":
        options["open-mode"].refuse("UNKNOWN_VALUE", "it is append or truncate")
    return env


def _named(pattern: str, options: Mapping[str, Option], task: int | None) -> str:
    """The parts of a file name that are known before the job runs; the pod fills in the others."""
    known = {"x": options["job-name"].value, "A": "%j", "a": str(task if task is not None else 4294967294)}
    return re.sub(r"%(\d*)([xAa])", lambda found: known[found[2]].zfill(int(found[1] or 0)), pattern)


def _of_array(tasks: Array | None, task: int | None) -> dict[str, str]:
    if tasks is None or task is None:
        return {}
    return {
        "SLURM_ARRAY_TASK_ID": str(task),
        "SLURM_ARRAY_TASK_COUNT": str(len(tasks.tasks)),
        "SLURM_ARRAY_TASK_MIN": str(tasks.tasks[0]),
        "SLURM_ARRAY_TASK_MAX": str(tasks.tasks[-1]),
        "SLURM_ARRAY_TASK_STEP": str(tasks.step),
    }


def _exported(options: Mapping[str, Option]) -> dict[str, str]:
    if "export" not in options:
        return {}
    env = {}
    for part in options["export"].value.split(","):
        name, equals, value = part.strip().partition("=")
        if equals:
            env[name] = value
        elif name not in ("ALL", "NONE", "NIL", ""):
            options["export"].refuse("NOT_SUPPORTED", f"{quoted(name)}: {_EXPORT_WHY}")
    return env


def _blamed(error: InvalidArgument, blames: Mapping[str, Option]) -> InvalidArgument:
    option = _cause(error.path, blames)
    if option is None:
        return InvalidArgument(error.message, reason=error.reason, path=error.path)
    return InvalidArgument(error.message, reason=error.reason, path=option.shown, line=option.line)


def _cause(path: str, blames: Mapping[str, Option]) -> Option | None:
    wanted = path
    while wanted:
        if wanted in blames:
            return blames[wanted]
        wanted = wanted[: max(wanted.rfind("."), wanted.rfind("["), 0)]
    return None


def _origins(blames: Mapping[str, Option]) -> dict[str, Origin]:
    return {"": Origin("sbatch", 1), **{path: Origin(option.shown, option.line) for path, option in blames.items()}}
