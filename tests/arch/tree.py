"""The files of the project as a reader of the repository sees them: tracked, or new and not ignored."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GIT_TIMEOUT_S: Final = 30


@cache
def project_files() -> tuple[Path, ...]:
    """Absolute paths of the project's files that exist, sorted. Needs git; every checkout has it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_S)
    return tuple(sorted(ROOT / name for name in set(done.stdout.split("\0")) if name and (ROOT / name).is_file()))


def text_of(path: Path) -> str | None:
    """The file's text, or None where it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
