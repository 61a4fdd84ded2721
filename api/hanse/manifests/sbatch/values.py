"""The values of sbatch's options: times, sizes, counts, devices, host lists and arrays."""

import re
from dataclasses import dataclass
from typing import Final

from hanse.manifests.sbatch.script import Option
from hanse.model.names import quoted

HOSTS_MAX: Final = 10_000
ARRAY_TASKS_MAX: Final = 1_000
_SECONDS_OF_MINUTE: Final = 60
_MEBI: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_UNLIMITED: Final = ("infinite", "unlimited", "-1")


def count(option: Option, what: str) -> int:
    """A whole number of at least 1; `k` and `m` multiply by 1,024 as in Slurm."""
    found = re.fullmatch(r"(\d{1,9})([kKmM]?)", option.value)
    number = int(found[1]) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()] if found else 0
    if number < 1:
        option.refuse("COUNT_OUT_OF_RANGE", f"{quoted(option.value)} {what}; it must be a number of at least 1")
    return number


def node_range(option: Option) -> tuple[int, int]:
    """`--nodes`: fewest and most."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", option.value)
    if found is None:
        option.refuse("TYPE", f"{quoted(option.value)} is not MIN or MIN-MAX nodes; lists of sizes are not read")
    least = int(found[1])
    most = int(found[2]) if found[2] else least
    if least < 1 or most < least:
        option.refuse("COUNT_OUT_OF_RANGE", f"{quoted(option.value)} nodes; at least 1, and the lesser number first")
    return least, most


def minutes_s(option: Option) -> int:
    """A time limit, rounded up to minutes, in seconds; 0 for none."""
    if option.value.lower() in _UNLIMITED:
        return 0
    found = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,7})(?::(\d{1,5}))?(?::(\d{1,5}))?", option.value)
    if found is None:
        option.refuse("TYPE", f"{quoted(option.value)} is no time; write M, M:S, H:M:S, D-H, D-H:M or D-H:M:S")
    parts = [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        total = ((int(found[1]) * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(parts) == 3:
        total = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    else:
        minutes, seconds = (*parts, 0)[:2]
        total = minutes * 60 + seconds
    return -(-total // _SECONDS_OF_MINUTE) * _SECONDS_OF_MINUTE


def mebibytes(option: Option) -> int:
    """A size; MiB unless it names another unit."""
    found = re.fullmatch(r"(\d{1,12})([KMGTP]?)B?", option.value.upper())
    if found is None:
        option.refuse("QUANTITY", f"{quoted(option.value)} is no size; write it as 64G")
    return max(int(int(found[1]) * _MEBI[found[2] or "M"]), 1) if int(found[1]) else 0


@dataclass(frozen=True, slots=True)
class Devices:
    """So many devices, of a type if one is named."""

    type: str
    number: int


def devices(option: Option, text: str | None = None) -> Devices:
    """`[TYPE:]NUMBER`; only one type, because pods of one set are alike."""
    written = option.value if text is None else text
    found = re.fullmatch(r"(?:([A-Za-z0-9][\w.-]*):)?(\d{1,6})", written)
    if found is None:
        option.refuse("TYPE", f"{quoted(written)} is not [TYPE:]NUMBER; GPUs of several types need a hetjob")
    return Devices(found[1] or "", int(found[2]))


def gres(option: Option) -> Devices:
    """The GPUs of a `--gres`.

    Raises:
        InvalidArgument: reason NOT_SUPPORTED, for what is no GPU.
    """
    total = Devices("", 0)
    for part in option.value.split(","):
        name, _, rest = part.strip().partition(":")
        if name == "none":
            continue
        if name != "gpu":
            option.refuse("NOT_SUPPORTED", f"{quoted(name)} is no GPU; other devices are not requested by --gres")
        if total.number:
            option.refuse("TYPE", "GPUs of several types need a hetjob")
        total = (
            devices(option, re.sub(r"\(.*\)$", "", rest) if rest else "1") if not _is_type(rest) else Devices(rest, 1)
        )
    return total


def _is_type(rest: str) -> bool:
    return bool(rest) and ":" not in rest and not rest.isdigit()


def hosts(option: Option) -> list[str]:
    """A host list, brackets written out: `node[01-03,7],login` is five hosts."""
    out: list[str] = []
    for part in filter(None, re.split(r",(?![^\[\]]*\])", option.value)):
        out += _expanded(option, part)
        if len(out) > HOSTS_MAX:
            option.refuse("TOO_MANY", f"more than {HOSTS_MAX:,} hosts")
    if not out:
        option.refuse("TYPE", f"{quoted(option.value)} names no host")
    return out


def _expanded(option: Option, part: str) -> list[str]:
    found = re.search(r"\[([^\]]*)\]", part)
    if found is None:
        if "[" in part or "]" in part:
            option.refuse("TYPE", f"a bracket in {quoted(part)} is not closed")
        return [part]
    before, after = part[: found.start()], part[found.end() :]
    out: list[str] = []
    for piece in found[1].split(","):
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", piece)
        if span is None or (span[2] and int(span[2]) - int(span[1]) not in range(HOSTS_MAX)):
            option.refuse("TYPE", f"{quoted(piece)} is no range of numbers")
        last = int(span[2] or span[1])
        numbers = [str(number).zfill(len(span[1])) for number in range(int(span[1]), last + 1)]
        for number in numbers:
            out += _expanded(option, f"{before}{number}{after}")
            if len(out) > HOSTS_MAX:
                option.refuse("TOO_MANY", f"more than {HOSTS_MAX:,} hosts")
    return out


@dataclass(frozen=True, slots=True)
class Array:
    """The tasks of an array.

    Attributes:
        at_once: `%LIMIT`, 0 for none.
    """

    tasks: tuple[int, ...]
    step: int
    at_once: int


def array(option: Option) -> Array:
    """`0-15:4%2`, `1,3,5-7`."""
    written, _, limit = option.value.partition("%")
    if "%" in option.value and not limit.isdigit():
        option.refuse("TYPE", f"{quoted(limit)} is no number of tasks at once")
    tasks: dict[int, None] = {}
    step = 1
    for piece in written.split(","):
        found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", piece)
        if found is None or (found[3] and int(found[3]) < 1):
            option.refuse("TYPE", f"{quoted(piece)} is no task or range of tasks; write it as 0-15:4")
        step = int(found[3] or 1)
        span = range(int(found[1]), int(found[2] or found[1]) + 1, step)
        if len(tasks) + len(span) > ARRAY_TASKS_MAX:
            option.refuse("TOO_MANY", f"each task is a job, and at most {ARRAY_TASKS_MAX:,} are read at once")
        if not span:
            option.refuse("TYPE", f"{quoted(piece)} is empty; write the lesser number first")
        tasks |= dict.fromkeys(span)
    return Array(tuple(sorted(tasks)), step, int(limit or 0))
