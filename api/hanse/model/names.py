"""Which texts are names: the rules of Kubernetes, because every name ends up on an object there one day.

RFC 1123 subdomains for jobs, queues and classes, RFC 1123 labels for pod sets, qualified names for label keys,
resources and topology levels. All patterns are anchored and linear: a hostile name costs no time.
"""

import re
from typing import Final

SUBDOMAIN_CHARS_MAX: Final = 253
LABEL_CHARS_MAX: Final = 63
QUALIFIED_CHARS_MAX: Final = SUBDOMAIN_CHARS_MAX + 1 + LABEL_CHARS_MAX

_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")

SUBDOMAIN_RULE: Final = (
    f"use at most {SUBDOMAIN_CHARS_MAX} lower-case letters, digits, '-' and '.', "
    "beginning and ending with a letter or digit"
)
LABEL_RULE: Final = (
    f"use at most {LABEL_CHARS_MAX} lower-case letters, digits and '-', beginning and ending with a letter or digit"
)
QUALIFIED_RULE: Final = (
    "use NAME or PREFIX/NAME: NAME at most 63 letters, digits, '-', '_' and '.', PREFIX a DNS name"
)


def is_label(text: str) -> bool:
    """Whether the text is an RFC 1123 label: `worker`, `h100-80g`."""
    return len(text) <= LABEL_CHARS_MAX and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether the text is an RFC 1123 subdomain: labels joined by dots, each of any length."""
    return len(text) <= SUBDOMAIN_CHARS_MAX and all(_LABEL.fullmatch(part) for part in text.split("."))


def is_qualified(text: str) -> bool:
    """Whether the text is a label key, resource name or topology level: `rack`, `nvidia.com/gpu`."""
    prefix, slash, name = text.rpartition("/")
    return (not slash or is_subdomain(prefix)) and _is_token(name)


def is_label_value(text: str) -> bool:
    """Whether the text may be the value of a Kubernetes label; empty is allowed."""
    return not text or _is_token(text)


def _is_token(text: str) -> bool:
    return len(text) <= LABEL_CHARS_MAX and _TOKEN.fullmatch(text) is not None


def below(path: str, key: str) -> str:
    """The path of `key` under `path`: `labels.team`, `limits["nvidia.com/gpu"]`."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{quoted(key, chars=QUALIFIED_CHARS_MAX)}]"


def quoted(text: str, *, chars: int = 60) -> str:
    """The text in double quotes, cut to `chars`, safe to show in one line."""
    shown = text if len(text) <= chars else text[: chars - 1] + "…"
    return '"' + "".join(c if c.isprintable() else "�" for c in shown) + '"'
