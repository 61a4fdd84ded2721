"""Who sees the same: what may be shared between callers, and what has to be read anew."""

from dataclasses import replace

from hanse.apiserver.access.rights import Access


def same_rights(one: Access, other: Access) -> bool:
    """Whether this is the same caller with the same rights, however long they are known."""
    return replace(one, expires_s=0) == replace(other, expires_s=0)


def same_sight(one: Access, other: Access) -> bool:
    """Whether two callers see the same. Rights in what is one's own are rights to change it, not to see it."""
    return _nobody(one) == _nobody(other)


def _nobody(access: Access) -> Access:
    return replace(access, principal="", groups=(), expires_s=0)
