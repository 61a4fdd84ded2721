"""What is written as YAML means the same when it is read."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hanse.cli.yaml_form import to_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        "yes",
        "No",
        "null",
        "~",
        "1e3",
        "0x1",
        "12:30",
        "a: b",
        "a #b",
        "- a",
        "*x",
        "&x",
        "!t",
        "a, b",
        "[a",
        "=",
        "<<",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_reading_gives_the_value_again(value: object, ascii_only: bool) -> None:
    assert yaml.safe_load(to_yaml(value, ascii_only=ascii_only)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"state": "RUNNING", "attempt": 2, "held": False, "spec": None},
            "state: RUNNING\nattempt: 2\nheld: false\nspec: null\n",
        ),
        ({"command": ["torchrun", "train.py", "--lr"]}, 'command: [torchrun, train.py, "--lr"]\n'),
        ({"jobs": [{"id": "a", "labels": {}}]}, "jobs:\n  - id: a\n    labels: {}\n"),
        ({"image": "registry.example/llama:latest"}, "image: registry.example/llama:latest\n"),
    ],
)
def test_looks_as_people_write_it(value: object, text: str) -> None:
    assert to_yaml(value) == text
