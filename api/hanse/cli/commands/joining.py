"""`hanse join-token`, `hanse join` and `hanse revoke`: how a cluster gets its certificate, and loses it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.draining import length_s
from hanse.cli.failures import WrongUse
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import session_of

if TYPE_CHECKING:
    from hanse.api.v1.trust_service_pb2 import JoinToken, Revocation
    from hanse.cli.paper import Paper
    from hanse.client import AsyncClient

HOUR: Final = "1h"
FOLDER: Final = Path("/etc/hanse/tls")
_AGENT: Final = "hanse://agent/"


def join_token(
    pool: Annotated[str, typer.Argument(metavar="POOL", help="Pool that may join; none lists the tokens.")] = "",
    ttl: Annotated[str, typer.Option("--ttl", metavar="LENGTH", help="For how long it is good, at most 7d.")] = HOUR,
    delete: Annotated[str, typer.Option("--delete", metavar="ID", help="Take a token back.")] = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Make a token with which one cluster joins, once; or list those that are good.

    It is shown this once. Hand it to whoever sets up the cluster, who runs `hanse join` with it.

    \b
    hanse join-token oslo --ttl 2h
    hanse join-token
    hanse join-token --delete 5c0f1a2b3c4d
    """
    session = session_of(server, output)
    if pool and delete:
        raise WrongUse("hanse join-token: --delete goes without a pool")
    if delete:
        session.ask(lambda client: client.trust.delete_join_token(delete))
        return session.say({"id": delete}, lambda paper: f"token {delete} is good no more\n")
    if not pool:
        tokens = session.ask(lambda client: client.trust.join_tokens())
        values = [_token_value(token) for token in tokens]
        return session.say(values, lambda paper: _token_page(tokens, paper))
    made = session.ask(lambda client: client.trust.create_join_token(pool, ttl_s=length_s(ttl, "--ttl")))
    order = f"hanse join {made.address} --pool {pool} --token {made.secret}"
    value = {**_token_value(made.token), "token": made.secret, "address": made.address}
    session.note(f"good once, within {ttl}; on the cluster's side run")
    return session.say(value, lambda paper: f"{order}\n")


def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="As `hanse join-token` told.")],
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="Pool that the token is for.")],
    token: Annotated[
        str, typer.Option("--token", metavar="TOKEN", help="The token, once.", envvar="HANSE_JOIN_TOKEN")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File that holds it instead.")
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where certificate and key go.")] = FOLDER,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing if there is a certificate that is good.")
    ] = False,
    output: OutputOption = None,
) -> None:
    """Let this cluster join a federation: get its agent's certificate by a token.

    The key is made here and stays here. Before the token is said, the other side has to show the authority that the
    token names. Afterwards the agent renews its certificate itself.

    \b
    hanse join hanse.example:7312 --pool oslo --token hj1.… --dir /etc/hanse/tls
    """
    import asyncio

    from hanse.cli.paper import joined
    from hanse.up.joining import join as join_by_token
    from hanse.up.joining import still_good
    from hanse.up.tokens import read_token

    session = session_of(None, output)
    if if_missing and still_good(pool, folder):
        return session.say({"pool": pool, "joined": False}, lambda paper: f"{pool} has a certificate that is good\n")
    if not token and token_file is None:
        raise WrongUse("hanse join: give the token by --token or --token-file; `hanse join-token POOL` makes one")
    found = asyncio.run(join_by_token(address, token or read_token(token_file), pool, folder))
    own, ca, replicas = str(found.files.cert), str(found.files.ca), ",".join(found.replicas) or "HOST:PORT,…"
    names = f"--set tls_ca_file={ca} --set tls_cert_file={own} --set tls_key_file={own}"
    lines = [
        f"{pool} belongs to federation {found.federation}; its certificate and key are in {own}",
        f"start its agent: hanse agent --pool {pool} --cluster kubeconfig:… --global {replicas} {names}",
    ]
    value = {
        "pool": pool,
        "joined": True,
        "federation": found.federation,
        "replicas": list(found.replicas),
        "ca_file": ca,
        "cert_file": own,
        "key_file": own,
    }
    return session.say(value, lambda paper: joined(lines))


def revoke(
    identity: Annotated[
        str, typer.Argument(metavar="POOL|hanse://KIND/NAME", help="Whose certificates; none lists what is revoked.")
    ] = "",
    serial: Annotated[
        str, typer.Option("--serial", metavar="HEX", help="One certificate, by its number, instead.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Believe them again, as far as they are not over.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Believe certificates no more: every replica ends the streams that they opened within seconds.

    What runs in a pool runs on; its agent is let in again with a new certificate (`hanse join-token`, `hanse join`).
    Name the pool rather than a serial if a key was stolen: a thief may have renewed what he has.

    \b
    hanse revoke oslo --reason "laptop lost"
    hanse revoke --serial 4f2a77
    hanse revoke
    """
    session = session_of(server, output)
    whose = identity if not identity or identity.startswith("hanse://") else f"{_AGENT}{identity}"
    if whose and serial:
        raise WrongUse("hanse revoke: name a pool or a serial, not both")
    if not whose and not serial:
        found = session.ask(lambda client: client.trust.revocations())
        return session.say([_revocation_value(one) for one in found], lambda paper: _revocation_page(found, paper))
    what = whose or f"serial {serial}"
    if undo:
        session.ask(lambda client: client.trust.believe_again(identity=whose, serial=serial))
        return session.say({"identity": whose, "serial": serial}, lambda paper: f"{what} is believed again\n")
    made = session.ask(lambda client: _revoked(client, whose, serial, reason))
    return session.say(_revocation_value(made), lambda paper: f"{what} is believed no more\n")


async def _revoked(client: "AsyncClient", identity: str, serial: str, reason: str) -> "Revocation":
    return await client.trust.revoke(identity=identity, serial=serial, reason=reason)


def _token_value(token: "JoinToken") -> dict[str, object]:
    from hanse.wire.json import message_to_json

    return dict(message_to_json(token))


def _revocation_value(revocation: "Revocation") -> dict[str, object]:
    from hanse.wire.json import message_to_json

    return dict(message_to_json(revocation))


def _token_page(tokens: "Sequence[JoinToken]", paper: "Paper") -> str:
    from hanse.cli.amounts import clock
    from hanse.cli.paper import joined
    from hanse.cli.table import Column, table

    if not tokens:
        return "no tokens; `hanse join-token POOL` makes one\n"
    columns = [Column(name) for name in ("ID", "POOL", "MADE BY", "GOOD UNTIL", "SPENT")]
    rows = [
        (one.id, one.pool, one.created_by, clock(one.expires_ms), clock(one.spent_ms) if one.spent_ms else "-")
        for one in tokens
    ]
    return joined(table(columns, rows, paper))


def _revocation_page(revocations: "Sequence[Revocation]", paper: "Paper") -> str:
    from hanse.cli.amounts import clock
    from hanse.cli.paper import joined
    from hanse.cli.table import Column, table

    if not revocations:
        return "nothing is revoked\n"
    columns = [Column(name) for name in ("WHOSE", "SINCE", "BY", "REASON")]
    rows = [
        (one.identity or f"serial {one.serial}", clock(one.revoked_ms), one.revoked_by, one.reason)
        for one in revocations
    ]
    return joined(table(columns, rows, paper))
