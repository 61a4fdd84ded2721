"""Brings compiled inner loops of placement, where numba is installed (`pip install 'hanse[native]'`).

They are compiled once for a machine, which takes ten seconds or so, and kept in the user's cache. A process that
places gangs on large pools asks for them (`load_for`); compiling happens in a process of its own, so that
nothing waits for it. Until they are there, or where they cannot be had, plain Python answers the same.
"""

import atexit
import logging
import os
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hanse.shape.native import native

_LOG = logging.getLogger(__name__)
NATIVE_NODES_MIN: Final = 1_000  # of a pool that is placed on, for compiled code to be worth its 100 MB
SWITCH: Final = "HANSE_NATIVE"  # "0" leaves everything to Python
_CACHE: Final = "NUMBA_CACHE_DIR"
_FOLDER: Final = Path("hanse", "native")  # in the user's cache
_COMPILE_MAX_S: Final = 300
_NICE: Final = 10

_asked = False


def load() -> bool:
    """Loads the compiled functions, and compiles those that no cache has; false where they cannot be had."""
    if not _wanted():
        return False
    _choose_cache()
    try:
        from hanse.kit import kernels
    except ImportError:
        return False
    except Exception:  # a numba that does not work on this machine must stop nothing
        _LOG.warning("placement goes on without compiled code", exc_info=True)
        return False
    native.by_exchanges = kernels.by_exchanges
    native.fill = kernels.fill
    native.cheapest = kernels.cheapest
    native.added = kernels.added
    native.lightest = kernels.lightest
    return True


def load_for(nodes: int) -> None:
    """A pool of so many nodes is placed on: brings compiled code, once, where that is worth its memory."""
    global _asked
    if not _asked and nodes >= NATIVE_NODES_MIN:
        _asked = True
        load_in_background()


def load_in_background() -> threading.Thread | None:
    """`load` on a thread of its own, which the process does not wait for; None where there is nothing to load."""
    if not _wanted():
        return None
    thread = threading.Thread(target=_load_compiled, name="native", daemon=True)
    thread.start()
    return thread


def _wanted() -> bool:
    return os.environ.get(SWITCH) != "0" and find_spec("numba") is not None


def _load_compiled() -> None:
    try:
        if not _is_compiled(_choose_cache()):
            _compile()
    except (OSError, subprocess.SubprocessError) as e:
        _LOG.warning("placement goes on without compiled code: %s", e)
        return
    load()


def _compile() -> None:
    """In a process that gives way to all others, and ends with this one. Raises OSError, SubprocessError."""
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "hanse.kit.native"]
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    atexit.register(process.kill)
    try:
        if process.wait(_COMPILE_MAX_S):
            raise subprocess.CalledProcessError(process.returncode, command)
    finally:
        process.kill()
        atexit.unregister(process.kill)


def _is_compiled(folder: Path) -> bool:
    since = find_spec("hanse.kit.kernels")
    if since is None or since.origin is None:
        return False
    written = Path(since.origin).stat().st_mtime
    return any(found.stat().st_mtime > written for found in folder.rglob("kernels.*.nbi"))


def _choose_cache() -> Path:
    """A folder of this user's for compiled code. One that others could write to would let them run code here."""
    told = os.environ.get(_CACHE)
    if told:
        return Path(told)
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError):
        folder = Path(tempfile.mkdtemp(prefix="hanse-native-"))
    os.environ[_CACHE] = str(folder)
    return folder


if __name__ == "__main__":
    os.nice(_NICE)
    sys.exit(not load())
