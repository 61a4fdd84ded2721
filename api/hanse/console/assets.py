"""The page's files, read once from the package: no build step, nothing from elsewhere."""

import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

PAGE: Final = "index.html"
KINDS: Final = MappingProxyType(
    {
        "html": "text/html; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, as it is and compressed."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str


def read_assets() -> dict[str, Asset]:
    """All files by name."""
    found: dict[str, Asset] = {}
    for entry in resources.files("hanse.console").joinpath("static").iterdir():
        kind = KINDS.get(entry.name.rpartition(".")[2])
        if kind is not None:
            plain = entry.read_bytes()
            tag = hashlib.sha256(plain).hexdigest()[:16]
            found[entry.name] = Asset(kind, plain, gzip.compress(plain, 9), f'"{tag}"')
    return found


def asset_answer(request: Request, asset: Asset) -> Response:
    """A file; a browser that has it is told so. It asks each time, so a new version never meets an old one."""
    headers = {"Cache-Control": "no-cache", "ETag": asset.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(asset.packed if packed else asset.plain, 200, headers, media_type=asset.kind)
