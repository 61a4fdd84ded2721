"""Who may call a global replica, put together from its settings: files that are followed, and an issuer of tokens."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hanse.apiserver.access.callers import Callers, Issuer
from hanse.apiserver.access.policy import CLOSED, TRUSTING, Policy
from hanse.apiserver.credentials import Credentials, check_listen, read_tokens
from hanse.kit.addresses import is_loopback
from hanse.kit.clock import Clock
from hanse.kit.followed import Followed
from hanse.model.errors import InvalidArgument
from hanse.up.access_file import read_policy

log = logging.getLogger(__name__)


def opened_callers(
    *,
    listen: str,
    tokens_file: Path | None,
    access_file: Path | None,
    certificates: bool,
    encrypted: bool,
    issuer: Issuer | None,
    clock: Clock,
) -> Callers:
    """Who may call a server that listens there.

    Raises:
        InvalidArgument: a file cannot be used, or nothing says who calls.
        FailedPrecondition: reason CREDENTIALS_MISSING.
    """
    tokens = _tokens(tokens_file, clock)
    policy = _policy(access_file, listen, clock)
    callers = Callers(lambda: replace(tokens(), certificates=certificates), policy, issuer)
    callers.files = tuple(one for one in (tokens, policy) if isinstance(one, Followed))
    check_listen(listen, open=callers.open)
    if access_file is not None and callers.open:
        raise InvalidArgument(
            "it says who may do what, and nothing says who calls: add a tokens_file, an oidc_issuer or a tls_ca_file",
            reason="CREDENTIALS_MISSING",
            path="access_file",
        )
    if not encrypted and callers.tokens and not is_loopback(listen.rpartition(":")[0]):
        what = "tokens travel readable to this replica; give it a certificate (tls_cert_file)"
        log.warning("tokens_in_clear", extra={"cause": what})
    return callers


def _tokens(file: Path | None, clock: Clock) -> Callable[[], Credentials]:
    if file is None:
        return Credentials
    return Followed(file, read_tokens, clock, name="tokens_file")


def _policy(file: Path | None, listen: str, clock: Clock) -> Callable[[], Policy]:
    if file is not None:
        return Followed(file, read_policy, clock, name="access_file")
    if is_loopback(listen.rpartition(":")[0]):
        return lambda: TRUSTING
    what = "everybody is denied everything but to say who they are: no access_file says who may do what"
    log.warning("access_denied_by_default", extra={"cause": what})
    return lambda: CLOSED
