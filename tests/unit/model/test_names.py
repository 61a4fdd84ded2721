"""Names are what Kubernetes takes for names."""

import pytest

from hanse.model.names import below, is_label, is_label_value, is_qualified, is_subdomain, quoted


@pytest.mark.parametrize("text", ["a", "a1", "1a", "a-b", "a" * 63])
def test_labels(text: str) -> None:
    assert is_label(text)
    assert is_subdomain(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a b", "a\n", "é", "a" * 64, "a.b", "a\0"])
def test_no_labels(text: str) -> None:
    assert not is_label(text)


@pytest.mark.parametrize("text", ["a.b", "a" * 200, "a-1.b-2", ".".join("a" * 126)])
def test_subdomains(text: str) -> None:
    assert is_subdomain(text)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.-b", "a/b", "A", "a" * 254, "a\n.b"])
def test_no_subdomains(text: str) -> None:
    assert not is_subdomain(text)


@pytest.mark.parametrize("text", ["rack", "nvidia.com/gpu", "a_b.c-D", "feature.node.kubernetes.io/pci-10de.present"])
def test_qualified_names(text: str) -> None:
    assert is_qualified(text)


@pytest.mark.parametrize("text", ["", "/", "/a", "a/", "a/b/c", "A.b/c", "a b", "-a", "a" * 64, "a\n"])
def test_no_qualified_names(text: str) -> None:
    assert not is_qualified(text)


@pytest.mark.parametrize(("text", "valid"), [("", True), ("a_B.1", True), ("-a", False), ("a b", False)])
def test_label_values(text: str, valid: bool) -> None:
    assert is_label_value(text) is valid


@pytest.mark.parametrize(
    ("key", "path"),
    [("team", "labels.team"), ("a/b", 'labels["a/b"]'), ("a b", 'labels["a b"]'), ("a\nb", 'labels["a�b"]')],
)
def test_paths(key: str, path: str) -> None:
    assert below("labels", key) == path


def test_a_quoted_text_is_one_short_line() -> None:
    assert quoted("a\nb\x1b[0m") == '"a�b�[0m"'
    assert quoted("x" * 100) == '"' + "x" * 59 + '…"'
