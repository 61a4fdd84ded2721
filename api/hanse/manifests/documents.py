"""A manifest as the objects it holds: documents of a file and items of a `List` alike.

Each object keeps its own text, because the agent creates it as written. A document's text is what stands between its
markers; an item of a list is cut out and moved to the left, or written anew as JSON if it leans on an alias that is
defined outside of it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hanse.manifests.fields import Field
from hanse.manifests.reader import parse
from hanse.manifests.tree import Table, Tree, plain_node
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest.

    Attributes:
        group: API group, "" for the core one; `version` is what follows the slash.
        field: the whole object.
        text: the object as written, readable on its own.
        place: "document 2" of several, else ""; for messages. Items of a list are told by their paths.
        index: position among the objects of the manifest, from 0.
    """

    group: str
    version: str
    kind: str
    field: Field
    text: str
    place: str
    index: int = 0

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def what(self) -> str:
        """For messages: `PyTorchJob of kubeflow.org/v1`."""
        return f"{self.kind} of {self.api_version}"


def read_documents(text: str | bytes) -> tuple[Document, ...]:
    """All objects of a manifest, in order, lists opened.

    Raises:
        InvalidArgument: not YAML, over a limit, no object at all, or something that is not an object.
    """
    trees = parse(text)
    found = tuple(
        document
        for index, tree in enumerate(trees)
        for document in _objects(tree, f"document {index + 1}" if len(trees) > 1 else "")
    )
    if not found:
        raise InvalidArgument("the file holds no object", reason="EMPTY")
    return tuple(replace(document, index=index) for index, document in enumerate(found))


def _objects(tree: Tree, place: str) -> Iterator[Document]:
    root = Field(tree.root, "", tree.line)
    if not isinstance(tree.root, Table):
        root.refuse("TYPE", f"{place or 'the file'} is not an object with apiVersion and kind")
    kind = root.need("kind", "no kind; say what the object is").word()
    items = root.get("items")
    if items is None or not kind.endswith("List"):
        yield _document(root, kind, tree.text, place)
        return
    root.only(("apiVersion", "kind", "metadata", "items"))
    for item in items.items():
        if not isinstance(item.node, Table):
            item.refuse("TYPE", "an item of a list must be an object")
        item_kind = item.get("kind")
        yield _document(
            item,
            item_kind.word() if item_kind else kind.removesuffix("List"),
            _standing_alone(item.node, tree),
            place,
            inherited=root.need("apiVersion").word() if kind != "List" else "",
        )


def _document(field: Field, kind: str, text: str, place: str, *, inherited: str = "") -> Document:
    written = field.get("apiVersion")
    if written is None and not inherited:
        field.need("apiVersion", f"no apiVersion; say which {quoted(kind)} is meant")
    group, _, version = (written.word() if written else inherited).rpartition("/")
    return Document(group, version, kind, field, text, place)


def nested_document(field: Field, index: int) -> Document:
    """An object that stands inside of another one. Its text is the outer object's, so it has none of its own."""
    kind = field.need("kind", "no kind; say what the object is").word()
    return replace(_document(field, kind, "", ""), index=index)


def _standing_alone(table: Table, tree: Tree) -> str:
    if tree.aliased:
        return json.dumps(plain_node(table), ensure_ascii=False, indent=1)
    start, end, column = table.span
    return " " * column + tree.source[start:end].rstrip() + "\n"


@contextmanager
def telling_which(documents: Sequence[Document]) -> Iterator[None]:
    """Add to an error the number of the document that its line is in, if there are several."""
    try:
        yield
    except InvalidArgument as error:
        begun = [document for document in documents if document.field.line <= error.line]
        if not begun or not begun[-1].place:
            raise
        message = f"{error.message} ({begun[-1].place})"
        raise InvalidArgument(message, reason=error.reason, path=error.path, line=error.line) from None


@contextmanager
def naming(filename: str) -> Iterator[None]:
    """Name the file in an error that no line of it can be blamed for."""
    try:
        yield
    except InvalidArgument as error:
        if error.line or not filename:
            raise
        raise InvalidArgument(f"{filename}: {error.message}", reason=error.reason, path=error.path) from None
