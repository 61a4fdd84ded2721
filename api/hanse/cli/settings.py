"""What holds for every command: which server, which form of output, which queue if none is named.

Each is looked for in the same order: the option, the environment (HANSE_SERVER, HANSE_OUTPUT, HANSE_QUEUE), the
configuration file, the default. `queue` is for jobs that name none. NO_COLOR turns colour off. The file is
`$HANSE_CONFIG`, or `hanse/config.yaml` below `$XDG_CONFIG_HOME` or `~/.config`:

    server: scheduler.example:7311
    output: table
    queue: research
    token_file: ~/.hanse-token
    ca_file: ~/hanse-ca.pem

`token_file`, `ca_file`, `cert_file` and `key_file` count where HANSE_TOKEN, HANSE_TOKEN_FILE, HANSE_CA_FILE,
HANSE_CERT_FILE and HANSE_KEY_FILE say nothing. A file that is not there is fine unless HANSE_CONFIG names it. A field
that does not exist is refused: a setting that is misspelt must not be ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from hanse.cli.failures import Failure
from hanse.model.errors import InvalidArgument

CONFIG_VARIABLE: Final = "HANSE_CONFIG"
SERVER_VARIABLE: Final = "HANSE_SERVER"
OUTPUT_VARIABLE: Final = "HANSE_OUTPUT"
QUEUE_VARIABLE: Final = "HANSE_QUEUE"
CONFIG_BYTES_MAX: Final = 65_536
_FIELDS: Final = ("server", "output", "queue", "token_file", "ca_file", "cert_file", "key_file")


class Output(StrEnum):
    """Forms of output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Settings:
    """Empty texts mean: not said anywhere."""

    server: str = ""
    output: Output = Output.TABLE
    queue: str = ""
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def environment(self) -> dict[str, str]:
        """What of it the SDK looks for in the environment."""
        found = {
            "HANSE_TOKEN_FILE": self.token_file,
            "HANSE_CA_FILE": self.ca_file,
            "HANSE_CERT_FILE": self.cert_file,
            "HANSE_KEY_FILE": self.key_file,
        }
        return {name: str(Path(text).expanduser()) for name, text in found.items() if text}


def settings_of(server: str, output: Output | None, environment: Mapping[str, str]) -> Settings:
    """The settings of one run.

    Raises:
        Failure: the configuration file cannot be used.
    """
    file = read_config(environment)
    return replace(
        file,
        server=server or environment.get(SERVER_VARIABLE) or file.server,
        output=output or _output_of_environment(environment) or file.output,
        queue=environment.get(QUEUE_VARIABLE) or file.queue,
    )


def _output_of_environment(environment: Mapping[str, str]) -> Output | None:
    word = environment.get(OUTPUT_VARIABLE, "")
    if not word:
        return None
    try:
        return Output(word)
    except ValueError:
        raise Failure(
            InvalidArgument(f"{word!r} is no form of output; use table, json or yaml", path=OUTPUT_VARIABLE)
        ) from None


def config_path(environment: Mapping[str, str]) -> Path:
    """Where the configuration file is, if there is one."""
    named = environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path(environment.get("HOME", "~")).expanduser() / ".config") / "hanse/config.yaml"


def read_config(environment: Mapping[str, str]) -> Settings:
    """The settings of the file; the defaults if there is none.

    Raises:
        Failure: it cannot be read, or holds what is no setting.
    """
    path = config_path(environment)
    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        if not environment.get(CONFIG_VARIABLE):
            return Settings()
        raise Failure(InvalidArgument(f"no such file; mend or unset {CONFIG_VARIABLE}"), file=str(path)) from None
    except OSError as error:
        raise Failure(InvalidArgument(f"cannot be read: {error.strerror}"), file=str(path)) from None
    try:
        return _parsed(text)
    except InvalidArgument as error:
        raise Failure(error, file=str(path)) from None


def _parsed(text: bytes) -> Settings:
    from hanse.manifests.fields import Field
    from hanse.manifests.reader import parse

    if len(text) > CONFIG_BYTES_MAX:
        raise InvalidArgument(f"more than {CONFIG_BYTES_MAX:,} bytes", reason="TOO_LARGE")
    trees = parse(text)
    if not trees:
        return Settings()
    root = Field(trees[0].root, "", trees[0].line)
    root.only(_FIELDS)
    output = root.get("output")
    texts = {name: field.text() for name in _FIELDS if name != "output" and (field := root.get(name)) is not None}
    return Settings(output=Output(output.one_of(*Output)) if output else Output.TABLE, **texts)
