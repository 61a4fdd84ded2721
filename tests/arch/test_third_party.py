"""Each third-party client has one owner: one module, or one package, is all that knows it.

So a client can be replaced, wrapped or mocked at one place, and no fault of a library spreads through the
code. Libraries that are vocabulary rather than clients (numpy, msgspec, grpc's status codes) have no owner.
"""

import ast
from collections import defaultdict
from functools import cache
from typing import Final

import pytest

from tests.arch.purity import imported_modules, matches
from tests.arch.tree import ROOT, project_files

SOURCE_ROOTS: Final = ("api", "global", "pool_agent")
ONE_MODULE: Final = ("aiomqtt", "jwt", "kubernetes", "paho", "uvloop", "yaml", "opentelemetry.exporter")
ONE_PACKAGE: Final = {
    "aiohttp": frozenset({"hanse.agent.cluster.kubernetes", "hanse.apiserver.access"}),
    "typer": frozenset({"hanse.cli"}),
    "click": frozenset({"hanse.cli"}),
    "rich": frozenset({"hanse.cli"}),
    "starlette": frozenset({"hanse.console"}),
    "uvicorn": frozenset({"hanse.console"}),
    "opentelemetry": frozenset({"hanse.kit"}),
    "cryptography": frozenset({"hanse.kit.trust"}),
    "sqlite3": frozenset({"hanse.store.sqlite", "hanse.simcluster"}),
}


@cache
def importers() -> dict[str, set[str]]:
    """For every dotted name that the product imports, the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in project_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.suffix != ".py" or parts[0] not in SOURCE_ROOTS:
            continue
        importer = ".".join(parts[1:]).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name in imported_modules(node):
                    found[name].add(importer)
    return found


def users_of(library: str) -> set[str]:
    """The product's modules that import the library or something in it."""
    users = (modules for name, modules in importers().items() if matches(name, frozenset({library})))
    return set().union(*users)


@pytest.mark.parametrize("library", ONE_MODULE)
def test_client_is_known_to_one_module(library: str) -> None:
    assert len(users_of(library)) <= 1, f"{library}: {sorted(users_of(library))}"


@pytest.mark.parametrize("library", ONE_PACKAGE)
def test_library_is_known_to_its_package(library: str) -> None:
    assert {user for user in users_of(library) if not matches(user, ONE_PACKAGE[library])} == set()
