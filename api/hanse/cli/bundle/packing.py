"""A bundle as a file: a `tar.gz` of small text files with a list of what is in it and what is not. Bounded."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one file in a bundle; the newest lines of a longer one are packed."""

BUNDLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of all files in a bundle together, before they are compressed."""

FOLDER: Final = "hanse-support"


def packed(files: Mapping[str, str], about: Mapping[str, object], *, now_s: int) -> bytes:
    """The bundle. Files that find no room are named in `manifest.json` and left out."""
    told: dict[str, bytes] = {}
    cut: list[str] = []
    room = BUNDLE_BYTES_MAX
    for name, text in files.items():
        data = text.encode()
        if len(data) > FILE_BYTES_MAX:
            data = data[-FILE_BYTES_MAX:].partition(b"\n")[2]
            cut.append(name)
        if len(data) > room:
            cut.append(name)
            continue
        told[name], room = data, room - len(data)
    manifest = {**about, "files": {name: len(data) for name, data in told.items()}, "cut": sorted(set(cut))}
    told["manifest.json"] = json.dumps(manifest, indent=2).encode() + b"\n"
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", mtime=now_s) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name in sorted(told):
            info = tarfile.TarInfo(f"{FOLDER}/{name}")
            info.size, info.mtime, info.mode = len(told[name]), now_s, 0o600
            tar.addfile(info, io.BytesIO(told[name]))
    return made.getvalue()


def write_bundle(path: Path, data: bytes) -> None:
    """Write a new file that only its owner reads. Raises OSError, FileExistsError among them."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
