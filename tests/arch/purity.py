"""Finds in source text what a pure package may not do; `test_purity.py` applies it to the tree.

A pure package decides from its arguments alone: same inputs, same bytes out. So it may not import what
reaches the world (loops, clocks, randomness, environment, files, logs) and may not call the few builtins
and methods that do so without an import. import-linter sees imports between our packages and third parties,
but not the standard library nor calls; this is the part that it cannot see.

The rules are a list of what is let in for third parties, and a list of what is kept out for the standard
library: the first is short and closed, the second would otherwise name half of Python. An import under
TYPE_CHECKING is a name in a signature, not a reach into the world, and is let through for the standard
library alone. So is `random.Random` anywhere, as the type of an argument: drawing from the module, or making
a source, is found.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

IMPURE_MODULES: Final = frozenset(
    "asyncio concurrent contextvars ctypes fcntl gc getpass glob http io locale logging mmap multiprocessing "
    "os pathlib platform queue resource sched secrets select selectors shelve shutil signal socket "
    "socketserver sqlite3 ssl subprocess sys tempfile threading time urllib.request uuid warnings "
    "weakref".split()
)
IMPURE_BUILTINS: Final = frozenset({"breakpoint", "compile", "eval", "exec", "hash", "id", "input", "open", "print"})
IMPURE_METHODS: Final = frozenset({"now", "today", "utcnow", "from_now"})
CLOCKED_TYPES: Final = frozenset({"datetime", "date"})
NUMPY_NAMES: Final = frozenset({"np", "numpy"})
NUMPY_RANDOM_TYPES: Final = frozenset({"Generator", "BitGenerator"})
RANDOM_TYPE: Final = "random.Random"


@dataclass(frozen=True, slots=True)
class Finding:
    """One impurity: the line and what is wrong there, in words."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What one pure package may import besides the pure part of the standard library, as dotted prefixes."""

    third_party: frozenset[str]
    own: frozenset[str]


def findings(source: str, rules: Rules) -> list[Finding]:
    """All impurities of one module's text, by line."""
    tree = ast.parse(source)
    typing_only = set(typing_only_nodes(tree))
    hash_methods = set(nodes_of_hash_methods(tree))
    found: list[Finding] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                found.extend(bad_imports(node, rules, typing_only=node in typing_only))
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
                if name != "hash" or node not in hash_methods:
                    found.append(Finding(node.lineno, f"calls {name}()"))
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if is_clock(owner, method):
                found.append(Finding(node.lineno, f"reads the clock by {ast.unparse(node.func)}()"))
            case ast.Call(func=ast.Name(id="Random") | ast.Attribute(value=ast.Name(id="random"), attr="Random")):
                found.append(Finding(node.lineno, "makes a source of randomness"))
            case ast.Attribute(value=ast.Name(id="random"), attr=attr) if attr != "Random":
                found.append(Finding(node.lineno, f"draws from random.{attr}"))
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner_name), attr="random"), attr=attr):
                if owner_name in NUMPY_NAMES and attr not in NUMPY_RANDOM_TYPES:
                    found.append(Finding(node.lineno, f"draws from {owner_name}.random.{attr}"))
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append(Finding(node.lineno, "is asynchronous"))
            case ast.Global(names=names):
                found.append(Finding(node.lineno, f"changes the global {names[0]}"))
            case _:
                pass
    return sorted(found, key=lambda finding: finding.line)


def is_clock(owner: ast.expr, method: str) -> bool:
    """Whether `owner.method()` reads a wall clock, as datetime.now() or date.today() do."""
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return method in IMPURE_METHODS and name in CLOCKED_TYPES


def typing_only_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node below an `if TYPE_CHECKING:`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for child in node.body:
                yield from ast.walk(child)


def nodes_of_hash_methods(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node inside a `__hash__`, where hash() is at home."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            yield from ast.walk(node)


def bad_imports(node: ast.Import | ast.ImportFrom, rules: Rules, *, typing_only: bool) -> Iterator[Finding]:
    """A finding for each name that this statement imports and the rules do not let in."""
    for module in imported_modules(node):
        root = module.partition(".")[0]
        if root == "hanse":
            allowed = matches(module, rules.own)
        elif root in sys.stdlib_module_names:
            allowed = typing_only or module in {"random", RANDOM_TYPE} or is_pure(module)
        else:
            allowed = matches(module, rules.third_party)
        if not allowed:
            yield Finding(node.lineno, f"imports {module}")


def is_pure(module: str) -> bool:
    """Whether a dotted name of the standard library is outside what reaches the world."""
    return not matches(module, IMPURE_MODULES | {"random"})


def imported_modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names that a statement imports; `from a import b` counts as `a.b`, which has the prefix `a`."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [f"{module}.{alias.name}" for alias in names]
        case _:
            return [f"hanse.(relative).{alias.name}" for alias in node.names]


def matches(module: str, prefixes: frozenset[str]) -> bool:
    """Whether a dotted name is one of the prefixes or below one."""
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)
