"""Values of options, as Slurm writes them."""

import pytest

from hanse.manifests.sbatch.options import OPTIONS
from hanse.manifests.sbatch.script import Option
from hanse.manifests.sbatch.values import Devices, array, devices, gres, hosts, mebibytes, minutes_s, node_range
from hanse.model.errors import InvalidArgument


def option(value: str, name: str = "time") -> Option:
    return Option(OPTIONS[name], value, 2)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("30", 30),
        ("1:30", 2),
        ("2:00", 2),
        ("1:00:00", 60),
        ("1:00:01", 61),
        ("1-0", 24 * 60),
        ("1-2:30", 24 * 60 + 150),
        ("1-2:30:10", 24 * 60 + 151),
        ("0", 0),
        ("UNLIMITED", 0),
        ("infinite", 0),
    ],
)
def test_times_are_rounded_up_to_minutes(text: str, minutes: int) -> None:
    assert minutes_s(option(text)) == minutes * 60


@pytest.mark.parametrize("text", ["", "1h", "-5", "1:2:3:4", "1-", "a-1"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        minutes_s(option(text))


@pytest.mark.parametrize(
    ("text", "mib"), [("64", 64), ("64G", 65536), ("64GB", 65536), ("2048K", 2), ("1t", 1024**2), ("0", 0), ("1K", 1)]
)
def test_sizes_are_mebibytes_unless_they_say(text: str, mib: int) -> None:
    assert mebibytes(option(text)) == mib


@pytest.mark.parametrize(("text", "wanted"), [("4", (4, 4)), ("2-8", (2, 8))])
def test_ranges_of_nodes(text: str, wanted: tuple[int, int]) -> None:
    assert node_range(option(text)) == wanted


@pytest.mark.parametrize("text", ["0", "8-2", "1,3", "4k", "", "1-7:2"])
def test_no_such_ranges_of_nodes(text: str) -> None:
    with pytest.raises(InvalidArgument):
        node_range(option(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("gpu", Devices("", 1)),
        ("gpu:4", Devices("", 4)),
        ("gpu:h100", Devices("h100", 1)),
        ("gpu:h100:8", Devices("h100", 8)),
        ("gpu:h100:8(S:0-1)", Devices("h100", 8)),
        ("none", Devices("", 0)),
    ],
)
def test_gres(text: str, wanted: Devices) -> None:
    assert gres(option(text)) == wanted


@pytest.mark.parametrize("text", ["fpga:1", "gpu:a100:2,gpu:h100:2", "gpu:a:b:c"])
def test_gres_that_is_not_read(text: str) -> None:
    with pytest.raises(InvalidArgument):
        gres(option(text))


def test_devices_of_a_type() -> None:
    assert devices(option("h100:8")) == Devices("h100", 8)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", ["a"]),
        ("node[01-03,7],login", ["node01", "node02", "node03", "node7", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_host_lists_are_written_out(text: str, wanted: list[str]) -> None:
    assert hosts(option(text)) == wanted


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a]", "n[1-99999999]", "r[1-999]n[1-999]", ","])
def test_host_lists_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument):
        hosts(option(text))


@pytest.mark.parametrize(
    ("text", "tasks", "at_once"),
    [("0-3", (0, 1, 2, 3), 0), ("0-15:4%2", (0, 4, 8, 12), 2), ("1,3,5-7", (1, 3, 5, 6, 7), 0), ("4,4", (4,), 0)],
)
def test_arrays(text: str, tasks: tuple[int, ...], at_once: int) -> None:
    found = array(option(text))
    assert (found.tasks, found.at_once) == (tasks, at_once)


@pytest.mark.parametrize("text", ["", "3-1", "1-9:0", "a", "0-99999", "1%", "1%x"])
def test_arrays_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument):
        array(option(text))
