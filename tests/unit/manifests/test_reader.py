"""The reader keeps lines, keeps to its limits, and refuses what two readers could read differently."""

import time

import pytest

from hanse.manifests.composer import (
    MANIFEST_ALIAS_NODES_MAX,
    MANIFEST_DEPTH_LEVELS_MAX,
    MANIFEST_DOCUMENTS_MAX,
    MANIFEST_NODES_MAX,
)
from hanse.manifests.reader import MANIFEST_BYTES_MAX, parse, plain
from hanse.manifests.tree import Table
from hanse.manifests.yaml_text import to_yaml
from hanse.model.errors import InvalidArgument


def only(text: str | bytes) -> object:
    return plain(text)


def refused(text: str | bytes) -> tuple[str, int]:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert "\n" not in caught.value.message
    return caught.value.reason, caught.value.line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, {c: 2}]\n", {"a": 1, "b": ["x", {"c": 2}]}),
        ('{"a": 1, "b": [true, null, "x"]}', {"a": 1, "b": [True, None, "x"]}),
        ('{\n\t"a":\t1\n}', {"a": 1}),
        ('{"a": "\\ud83d\\ude00 \\/ \\\\ud83d"}', {"a": "😀 / \\ud83d"}),
        ("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
        (
            "a: &x {b: 1}\nc: &z {b: 2, d: 4}\ne: {<<: [*x, *z]}\n",
            {"a": {"b": 1}, "c": {"b": 2, "d": 4}, "e": {"b": 1, "d": 4}},
        ),
        ('"<<": 1', {"<<": 1}),
        ("8080: x\n010: z\n", {"8080": "x", "8": "z"}),
        ("a: !!str 12", {"a": "12"}),
        ('a: !!int "12"', {"a": 12}),
        ("a: ! 12", {"a": "12"}),
        ("a: '12'\nb: \"NO\"\nc: NO", {"a": "12", "b": "NO", "c": False}),
        ("a: |\n  x\n  z\n", {"a": "x\nz\n"}),
        ("\ufeffa: 1", {"a": 1}),
        (b"a: \xc3\xa9", {"a": "é"}),
        ("%YAML 1.1\n---\na: 1\n...\n", {"a": 1}),
    ],
)
def test_text_reads_as(text: str | bytes, value: object) -> None:
    assert only(text) == value


@pytest.mark.parametrize("text", ["", "   \n", "---\n---\n", "# only a comment\n", "~", "null"])
def test_empty_documents_are_left_out(text: str) -> None:
    assert parse(text) == ()


def test_one_document_is_plain_values() -> None:
    assert plain("") is None
    assert plain("a: [1, .inf, {b: ~}]") == {"a": [1, ".inf", {"b": None}]}
    with pytest.raises(InvalidArgument) as caught:
        plain("a: 1\n---\nb: 2\n")
    assert (caught.value.reason, caught.value.line) == ("TOO_MANY", 3)


def test_plain_values_are_written_so_that_they_read_the_same() -> None:
    value = {"name": "NO", "count": 8, "text": "8", "yes": "010", "list": ["é", "1:30", None], "long": "x " * 100}
    assert plain(to_yaml(value)) == value
    assert to_yaml({"b": 1, "a": 2}) == "b: 1\na: 2\n"


def test_documents_keep_their_own_text_and_lines() -> None:
    first, second = parse("# head\na: 1\n---\nb:\n  c: 2\n")
    assert (first.text, first.line) == ("# head\na: 1\n", 2)
    assert (second.text.strip(), second.line) == ("b:\n  c: 2", 4)
    assert isinstance(second.root, Table)
    inner = second.root.entries["b"]
    assert inner.line == 4
    assert isinstance(inner.node, Table)
    assert inner.node.entries["c"].line == 5


def test_characters_beyond_the_basic_plane_do_not_shift_the_text() -> None:
    first, second = parse("😀😀: é\n---\nk: v\n")
    assert first.text == "😀😀: é\n"
    assert second.text.strip() == "k: v"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2", 1),
        ("a: 1\nb: [1, 2\n", 2),
        ('a: 1\nb: "x\nc: 2\n', 3),
        ("a: 1\nb: 2: 3\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\na: 2\n", 2),
        ("a: {b: 1, c: 2,\n b: 3}\n", 2),
        ("x: 1\nyes: 2\n", 2),
        ("x: 1\n1.5: 2\n", 2),
        ("x: 1\n~: 2\n", 2),
        ("x: 1\n? [a]\n: 2\n", 2),
        ("x: 1\n? {a: 1}\n: 2\n", 2),
        ("a: !!python/object/apply:os.system [ls]\n", 1),
        ("a: 1\nb: !custom {c: 1}\n", 2),
        ("a: 1\nb: !!timestamp 2026-01-01\n", 2),
        ("a: 1\nb: !!binary aGk=\n", 2),
        ("a: !!int abc\n", 1),
        ("a: !!map [1]\n", 1),
        ("a: 1\nb: *nobody\n", 2),
        ("a: &x [1, *x]\n", 1),
        ("a: &x {b: *x}\n", 1),
        ("a: 1\n<<: 2\n", 2),
        ("a: 1\n<<: [1]\n", 2),
        ("a: 1\nb: \0\n", 2),
        ("a: 1\nb: \x07\n", 2),
        (b"a: 1\nb: \xff\xfe\n", 2),
        ("a: 1\nb: \ud800\n", 2),
        ("a: @b\n", 1),
        ("- a\nb: 1\n", 2),
        ("{{ .Values.name }}: 1\n", 1),
    ],
)
def test_text_that_is_not_plain_yaml_is_refused_with_its_line(text: str | bytes, line: int) -> None:
    assert refused(text) == ("YAML", line)


@pytest.mark.parametrize("unseen", ["\x85", "\u2028", "\u2029"])
def test_lines_are_those_that_an_editor_shows(unseen: str) -> None:
    assert refused(f"a: 1{unseen}# no new line for people\nb: !x 2\n") == ("YAML", 2)
    (tree,) = parse(f"a: 1{unseen}b: 2\nc: 3\n")
    assert isinstance(tree.root, Table)
    assert {key: entry.line for key, entry in tree.root.entries.items()} == {"a": 1, "b": 1, "c": 2}


def test_anchors_end_with_their_document() -> None:
    assert refused("a: &x 1\n---\nb: *x\n") == ("YAML", 3)


def test_a_file_over_the_limit_is_refused_before_it_is_read() -> None:
    started = time.process_time()
    assert refused(b"[" * 100_000_000) == ("TOO_LARGE", 0)
    assert refused("é" * (MANIFEST_BYTES_MAX // 2 + 1)) == ("TOO_LARGE", 0)
    assert time.process_time() - started < 1


def nested(levels: int) -> str:
    return "a: " + "[" * (levels - 1) + "]" * (levels - 1)


def test_depth_is_limited() -> None:
    parse(nested(MANIFEST_DEPTH_LEVELS_MAX))
    assert refused(nested(MANIFEST_DEPTH_LEVELS_MAX + 1)) == ("TOO_DEEP", 1)
    assert refused("[" * 500_000) == ("TOO_DEEP", 1)


def test_depth_counts_through_aliases() -> None:
    steps = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, MANIFEST_DEPTH_LEVELS_MAX)]
    assert refused("\n".join(steps))[0] == "TOO_DEEP"


def test_an_alias_costs_what_it_stands_for() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join(['*' + before] * 9)}]")
    assert refused("\n".join(lines))[0] == "YAML_BOMB"


def test_a_bomb_of_merges_is_refused() -> None:
    wide = "{" + ",".join(f"k{i}: 1" for i in range(1000)) + "}"
    merges = "".join(f"m{i}: {{<<: *w}}\n" for i in range(1000))
    assert refused(f"w: &w {wide}\n{merges}")[0] == "YAML_BOMB"


def test_a_few_aliases_are_welcome() -> None:
    many = MANIFEST_ALIAS_NODES_MAX - 1
    assert len(parse("a: &a x\nb: [" + ",".join(["*a"] * many) + "]")) == 1


def test_the_number_of_values_is_limited() -> None:
    assert refused("[" + ",".join(["1"] * (MANIFEST_NODES_MAX + 1)) + "]")[0] == "TOO_MANY_NODES"


def test_the_number_of_documents_is_limited() -> None:
    most = "---\na: 1\n" * MANIFEST_DOCUMENTS_MAX
    assert len(parse(most)) == MANIFEST_DOCUMENTS_MAX
    assert refused(most + "---\na: 1\n")[0] == "TOO_MANY"
