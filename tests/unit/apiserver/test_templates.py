"""What is kept of a spec never leaks into another one."""

import pytest

from hanse.apiserver.templates import TEMPLATES_KEPT_MAX, Templates
from hanse.model.errors import InvalidArgument
from hanse.model.ids import QueueUid
from hanse.model.request import class_hash, gang_request
from hanse.wire.job import spec_from_wire, spec_to_wire
from tests.unit.apiserver.stage import spec

UID = QueueUid("abcdefgh")


def test_a_name_alone_makes_no_difference_to_the_rest() -> None:
    templates = Templates()
    for name in ("a", "b", "a"):
        message = spec_to_wire(spec(name))
        found = templates.read(message)
        assert found.spec == spec_from_wire(message)
        assert found.request == gang_request(found.spec)
        assert found.class_hash(UID) == class_hash(UID, found.request)


def test_anything_else_does() -> None:
    templates = Templates()
    templates.read(spec_to_wire(spec(count=2)))
    assert templates.read(spec_to_wire(spec(count=3))).spec.pods == 3
    assert templates.read(spec_to_wire(spec(queue="other"))).spec.queue == "other"
    labelled = spec_to_wire(spec())
    labelled.labels["a"] = "b"
    assert dict(templates.read(labelled).spec.labels) == {"a": "b"}


def test_a_bad_name_is_refused_also_where_the_rest_is_known() -> None:
    templates = Templates()
    templates.read(spec_to_wire(spec("good")))
    for name in ("", "Not Good"):
        with pytest.raises(InvalidArgument) as refused:
            templates.read(spec_to_wire(spec(name)))
        assert (refused.value.reason, refused.value.path) == ("NAME_INVALID", "name")


def test_what_is_refused_stays_refused() -> None:
    templates = Templates()
    for _ in range(2):
        with pytest.raises(InvalidArgument):
            templates.read(spec_to_wire(spec(count=0)))


def test_what_is_kept_is_bounded() -> None:
    templates = Templates()
    for count in range(1, TEMPLATES_KEPT_MAX + 50):
        templates.read(spec_to_wire(spec(count=count)))
    assert len(templates._known) == TEMPLATES_KEPT_MAX
