"""Finds every check on an epoch, an attempt, a revision or the like in the product's source, and takes one out.

A check is a place in the source, found by its syntax, so that one that was added yesterday is among them:

* a condition, or one operand of one, that speaks of such a thing: taken out, it is always true, or always false;
* a guard of a transaction: taken out, it compares a key that nobody ever writes;
* a key in a list of keys, or one entry of a mapping of guards: taken out, it is not there.

The patterns are wide on purpose. A condition that only looks like a check is caught at once or does no harm, and
costs a few seeds; one that is overlooked costs the proof.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

SOURCES: Final = (
    "api/hanse/model/lifecycle.py",
    "global/hanse/store/moves.py",
    "global/hanse/scheduler/shell/*.py",
    "global/hanse/scheduler/core/*.py",
    "pool_agent/hanse/agent/core/*.py",
    "pool_agent/hanse/agent/shell/*.py",
    "pool_agent/hanse/agent/cluster/simulated*.py",
    "pool_agent/hanse/simcluster/engine.py",
    "api/hanse/apiserver/*.py",
)
"""Where a check may stand between a fault and harm."""

HARMLESS: Final = {
    "global/hanse/scheduler/shell": "details events fleet gauges janitor link_service peer_client peer_service peers"
    " skew traces vitals",
    "global/hanse/scheduler/core": "chronicle explain occurrences verdicts",
    "pool_agent/hanse/agent/core": "counting demand devices dialects explain hosts mapping node packing placement"
    " places small topology usable",
    "pool_agent/hanse/agent/shell": "details dial traces",
    "api/hanse/apiserver": "capacity config credentials dialects door events explaining job_messages logs"
    " past_events ports rpc server_info serving shapes status",
}  # fmt: skip
"""Modules by folder that say what is, or how to reach somebody, or where a gang fits: nothing that they decide is
written anywhere by its own right. What they get wrong is the business of other tests."""

WORDS: Final = re.compile(
    r"epoch|attempt|incarnation|revision|nonce|fence|guard|(?<!is)instance|federation|supersed|newest|outdated|\blease"
    r"|write_id|assumed|doubt|_life\b|older|newer|stale|busy|accepted|recover"
)
"""What a check speaks of."""

NEVER_WRITTEN: Final = "meta/never-written"
GUARD: Final = "ModRevisionIs"


@dataclass(frozen=True, slots=True)
class Check:
    """One place where one check can be taken out in one way.

    Attributes:
        path: of the source, relative to the root.
        number: of the node, in the order in which the syntax tree is walked.
        instead: what stands there then: `True` or `False` (a condition), `guard`, `key` or `entry` (nothing).
        text: what stands there, in one line.
    """

    path: str
    line: int
    number: int
    instead: str
    text: str

    @property
    def name(self) -> str:
        """Names it on a command line; moves when the source above it does."""
        return f"{self.path}:{self.line}:{self.number}:{self.instead}"

    @property
    def told(self) -> str:
        """For people."""
        what = f"always {self.instead}" if self.instead in ("True", "False") else f"without this {self.instead}"
        return f"{self.path}:{self.line} {what}: {self.text}"


def sources() -> Iterator[Path]:
    """The files that are looked at, sorted within each pattern."""
    harmless = {f"{folder}/{module}.py" for folder, modules in HARMLESS.items() for module in modules.split()}
    for pattern in SOURCES:
        yield from (path for path in sorted(ROOT.glob(pattern)) if str(path.relative_to(ROOT)) not in harmless)


def checks_of(path: Path) -> Iterator[Check]:
    """Every check of one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = str(path.relative_to(ROOT))
    conditions = {id(leaf) for test in _tests(tree) for leaf in _leaves(test)}
    for number, node in enumerate(ast.walk(tree)):
        for instead in _ways(node, conditions):
            text = " ".join(ast.unparse(node).split())
            yield Check(name, node.lineno, number, instead, text)  # type: ignore[attr-defined]  # no bare node has ways


def _ways(node: ast.AST, conditions: set[int]) -> tuple[str, ...]:
    """In which ways a node can be taken out."""
    if _is_guard(node):
        return ("guard",)
    if isinstance(node, ast.Assign) and _is_entry(node):
        return ("entry",)
    if isinstance(node, ast.expr) and (id(node) in conditions or isinstance(node, ast.Compare)):
        return ("True", "False") if WORDS.search(ast.unparse(node)) else ()
    return ()


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == GUARD


def _is_entry(node: ast.Assign) -> bool:
    """`seen[keys.…] = …`."""
    target = node.targets[0]
    return isinstance(target, ast.Subscript) and ast.unparse(target.slice).startswith("keys.")


def _tests(tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression that decides something."""
    for node in ast.walk(tree):
        match node:
            case ast.If() | ast.While() | ast.IfExp():
                yield node.test
            case ast.comprehension():
                yield from node.ifs
            case ast.match_case(guard=ast.expr() as guard):
                yield guard
            case ast.BoolOp():
                yield node


def _leaves(test: ast.expr) -> Iterator[ast.expr]:
    """The operands of a condition that are not conditions themselves, without their `not`."""
    match test:
        case ast.BoolOp():
            for value in test.values:
                yield from _leaves(value)
        case ast.UnaryOp(op=ast.Not()):
            yield from _leaves(test.operand)
        case _:
            yield test


# ---- taking out ---------------------------------------------------------------------------------------------


class _Without(ast.NodeTransformer):
    """Replaces nodes, by their identity."""

    def __init__(self, instead: dict[int, ast.AST]) -> None:
        self._instead = instead

    def visit(self, node: ast.AST) -> ast.AST:
        found = self._instead.get(id(node))
        if found is None:
            return self.generic_visit(node)
        inner = self._instead.pop(id(node))
        self.generic_visit(node)
        return ast.copy_location(inner, node)


def without(check: Check) -> ast.Module:
    """The file's syntax tree with that check taken out."""
    tree = ast.parse((ROOT / check.path).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[check.number]
    return _replaced(tree, {id(node): _replacement(node, check.instead)})


def _replaced(tree: ast.Module, instead: dict[int, ast.AST]) -> ast.Module:
    _Without(instead).visit(tree)
    return ast.fix_missing_locations(tree)


def _replacement(node: ast.AST, instead: str) -> ast.AST:
    match instead:
        case "guard":
            return ast.parse(f"{GUARD}({NEVER_WRITTEN!r}, 0)", mode="eval").body
        case "entry":
            return ast.Pass()
        case _:
            # What is computed is still computed: only its outcome does not count.
            assert isinstance(node, ast.expr)
            return ast.Subscript(
                ast.Tuple([node, ast.Constant(instead == "True")], ast.Load()), ast.Constant(1), ast.Load()
            )


WATCHER: Final = "_hanse_check_watched"


def watched(path: Path) -> ast.Module:
    """The file's syntax tree with every condition's value told to `WATCHER(name, value)`, which gives it back."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    instead: dict[int, ast.AST] = {}
    for check in checks_of(path):
        node = nodes[check.number]
        if isinstance(node, ast.expr) and check.instead == "True":
            place = ast.Constant(check.name.removesuffix(":True"))
            instead[id(node)] = ast.Call(ast.Name(WATCHER, ast.Load()), [place, node], [])
    return _replaced(tree, instead)
