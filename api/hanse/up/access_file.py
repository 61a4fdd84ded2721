"""The file that says who may do what: `access.yaml`, read into a `Policy`.

A binding says where it holds, in so many words: `queues` or `cluster: true`, and never nothing. A role for the whole
federation by leaving out a line would be too easy a mistake.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.terms import ALL, QueueTerms
from hanse.apiserver.access.verbs import Role
from hanse.model.errors import InvalidArgument
from hanse.model.names import is_subdomain
from hanse.up.fleet_refusals import first_refusal
from hanse.up.fleet_text import field_lines, only_document, plain

POLICY_BYTES_MAX: Final = 1 << 20
BINDINGS_MAX: Final = 1_000
SUBJECTS_MAX: Final = 1_000
QUEUES_MAX: Final = 1_000
NAMES_MAX: Final = 256
SUBJECT_CHARS_MAX: Final = 256
PARTS: Final = (Role.AGENT, Role.REPLICA)


def _subject(text: str) -> str:
    if not text or len(text) > SUBJECT_CHARS_MAX or not text.isprintable() or text != text.strip():
        raise ValueError(f"a user or group has 1 to {SUBJECT_CHARS_MAX} printable characters")
    if text.endswith(ALL):
        raise ValueError("users and groups are named one by one; there is no pattern for them")
    return text


def _pattern(text: str) -> str:
    name = text.removesuffix(ALL)
    if ALL in name or (name and not is_subdomain(name.rstrip("-.") or "/")) or not text:
        raise ValueError(f'"{text[:60]}" is neither a name nor the beginning of names with a {ALL} behind it')
    return text


def _role(text: str) -> str:
    if text not in [role.value for role in Role]:
        raise ValueError(f'no role "{text[:60]}"; there are: {", ".join(Role)}')
    return text


Subject = Annotated[str, AfterValidator(_subject)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Patterns = Annotated[list[Pattern], Field(max_length=NAMES_MAX)]


class _Strict(BaseModel):
    """Nothing unknown, nothing converted that is not meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class BindingModel(_Strict):
    """A role for some users and groups."""

    role: Annotated[str, AfterValidator(_role)]
    """`admin`, `operator`, `queue-admin`, `submitter`, `viewer`; of parts that show a token `agent`, `replica`."""
    users: Annotated[list[Subject], Field(max_length=SUBJECTS_MAX)] = []
    """Principals of the tokens file, names of certificates, users of the issuer with its prefix."""
    groups: Annotated[list[Subject], Field(max_length=SUBJECTS_MAX)] = []
    """Groups of the tokens file, groups of the issuer with its prefix."""
    queues: Patterns = []
    """Queues in which it holds: names, or beginnings of names with `*`."""
    cluster: bool = False
    """Whether it holds in the whole federation."""

    @model_validator(mode="after")
    def _whole(self) -> "BindingModel":
        if not self.users and not self.groups:
            raise ValueError("names nobody; give users or groups")
        if self.role in PARTS and (self.queues or self.cluster):
            raise ValueError(f"role {self.role} is of a part of the product; it has neither queues nor cluster")
        if self.role not in PARTS and bool(self.queues) is self.cluster:
            raise ValueError("say where it holds: either queues, or cluster: true")
        return self

    def binding(self) -> Binding:
        """As the server uses it."""
        whole = self.cluster or self.role in PARTS
        users, groups = frozenset(self.users), frozenset(self.groups)
        return Binding(Role(self.role), users, groups, tuple(self.queues), cluster=whole)


class QueueModel(_Strict):
    """What jobs of a queue may name."""

    namespaces: Patterns = []
    """Namespaces; a job that names none is put where its agent says."""
    service_accounts: Patterns = []
    """Service accounts beside `default`."""
    priority_classes: Patterns | None = None
    """Priority classes; left out: all."""
    flavors: Patterns | None = None
    """Flavors; left out: all for which the queue has a quota."""

    def terms(self) -> QueueTerms:
        """As the server uses them."""
        priorities, flavors = self.priority_classes, self.flavors
        return QueueTerms(
            tuple(self.namespaces),
            tuple(self.service_accounts),
            None if priorities is None else tuple(priorities),
            None if flavors is None else tuple(flavors),
        )


class AccessModel(_Strict):
    """The whole file."""

    bindings: Annotated[list[BindingModel], Field(max_length=BINDINGS_MAX)]
    """Who has which role."""
    queues: Annotated[dict[Pattern, QueueModel], Field(max_length=QUEUES_MAX)] = {}
    """By queue, or by the beginning of names with `*`; the longest that matches counts."""


def parse_policy(text: str | bytes) -> Policy:
    """The policy that a text is. Raises InvalidArgument with path and line."""
    if len(text) > POLICY_BYTES_MAX:
        raise InvalidArgument(f"it has more than {POLICY_BYTES_MAX:,} bytes", reason="TOO_LARGE")
    document = only_document(text)
    values = plain(document)
    if not isinstance(values, dict):
        raise InvalidArgument("an access policy is a mapping with bindings", reason="INVALID", line=document.line)
    lines: Mapping[str, int] = dict(field_lines(document))
    try:
        model = AccessModel.model_validate(values)
    except ValidationError as error:
        raise first_refusal(error, lines, AccessModel) from None
    terms = {name: queue.terms() for name, queue in model.queues.items()}
    return Policy(tuple(one.binding() for one in model.bindings), terms)


def read_policy(file: Path) -> Policy:
    """The policy of a file. Raises InvalidArgument: its path is `FILE:LINE: FIELD`."""
    try:
        with file.open("rb") as opened:
            text = opened.read(POLICY_BYTES_MAX + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise InvalidArgument(what, reason="FILE_UNREADABLE", path=str(file)) from None
    try:
        return parse_policy(text)
    except InvalidArgument as error:
        line = f":{error.line}" if error.line else ""
        field = f": {error.path}" if error.path else ""
        raise InvalidArgument(error.message, reason=error.reason, path=f"{file}{line}{field}") from None
