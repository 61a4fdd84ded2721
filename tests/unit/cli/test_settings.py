"""Option, environment, file, default: in this order."""

from pathlib import Path

import pytest

from hanse.cli.failures import Failure, lines_of
from hanse.cli.settings import Output, Settings, config_path, settings_of


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("server: file.example:1\noutput: yaml\nqueue: research\n")
    return path


def test_the_file_is_used_where_nothing_else_is_said(config: Path) -> None:
    assert settings_of("", None, {"HANSE_CONFIG": str(config)}) == Settings("file.example:1", Output.YAML, "research")


def test_the_environment_wins_over_the_file_and_options_over_both(config: Path) -> None:
    environment = {"HANSE_CONFIG": str(config), "HANSE_SERVER": "env.example:2", "HANSE_OUTPUT": "json"}
    assert settings_of("", None, environment).server == "env.example:2"
    assert settings_of("", None, environment).output is Output.JSON
    assert settings_of("flag.example:3", Output.TABLE, environment).server == "flag.example:3"
    assert settings_of("flag.example:3", Output.TABLE, environment).output is Output.TABLE


def test_no_file_is_fine_unless_one_is_named(tmp_path: Path) -> None:
    assert settings_of("", None, {"HOME": str(tmp_path)}) == Settings()
    with pytest.raises(Failure, match="no such file"):
        settings_of("", None, {"HANSE_CONFIG": str(tmp_path / "nowhere.yaml")})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("servr: a:1\n", ':1: servr: no field of this name; did you mean "server"?'),
        ("server: a:1\noutput: xml\n", ':2: output: "xml" is not known; use table, json or yaml'),
        ("server: [a]\n", ":1: server: "),
        ("server: {\n", ":1: not YAML: "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(Failure) as caught:
        settings_of("", None, {"HANSE_CONFIG": str(path)})
    assert lines_of(caught.value.errors, file=caught.value.file)[0].startswith(f"{path}{told}")


def test_a_word_in_the_environment_is_checked_too() -> None:
    with pytest.raises(Failure, match="no form of output"):
        settings_of("", None, {"HANSE_OUTPUT": "xml", "HOME": "/nonexistent"})


def test_where_the_file_is() -> None:
    assert config_path({"HOME": "/h"}) == Path("/h/.config/hanse/config.yaml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/hanse/config.yaml")
