"""Specs that differ only in their name are parsed and checked once.

Jobs come in families: the same pods over and over under new names. Parsing and checking a spec costs ten times what
it costs to serialise it, so what is known of a spec is kept by its bytes without the name. Equal bytes are equal
specs; nothing that depends on the world (queues, flavors, pools) is kept here.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from hanse.api.v1 import job_spec_pb2
from hanse.model.ids import QueueUid
from hanse.model.job import JobSpec
from hanse.model.request import GangRequest, class_hash, gang_request
from hanse.model.validate import check_name, validate_spec
from hanse.wire.job import spec_from_wire

TEMPLATES_KEPT_MAX: Final = 4_096
TEMPLATE_BYTES_MAX: Final = 2_048
"""Larger specs (those with a manifest) are seldom alike, and are not kept."""


@dataclass(frozen=True, slots=True)
class Template:
    """A spec that obeys every rule, under whatever name it came first."""

    spec: JobSpec
    request: GangRequest
    hashes: dict[QueueUid, int] = field(default_factory=dict)

    def class_hash(self, queue: QueueUid) -> int:
        """The hash of the request class in a queue."""
        found = self.hashes.get(queue)
        if found is None:
            found = self.hashes[queue] = class_hash(queue, self.request)
        return found


class Templates:
    """Reads specs."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Template] = OrderedDict()

    def read(self, message: job_spec_pb2.JobSpec) -> Template:
        """Parse and check a spec.

        Raises:
            InvalidArgument: with the path of the field that is wrong.
        """
        nameless = job_spec_pb2.JobSpec()
        nameless.CopyFrom(message)
        nameless.ClearField("name")
        key = nameless.SerializeToString(deterministic=True)
        known = self._known.get(key)
        if known is None:
            return self._checked(message, key)
        check_name(message.name)
        self._known.move_to_end(key)
        return Template(replace(known.spec, name=message.name), known.request, known.hashes)

    def _checked(self, message: job_spec_pb2.JobSpec, key: bytes) -> Template:
        spec = spec_from_wire(message)
        validate_spec(spec)
        template = Template(spec, gang_request(spec))
        if len(key) <= TEMPLATE_BYTES_MAX:
            self._known[key] = template
            if len(self._known) > TEMPLATES_KEPT_MAX:
                self._known.popitem(last=False)
        return template
