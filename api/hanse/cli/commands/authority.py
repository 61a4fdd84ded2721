"""`hanse ca`: an authority for a federation that brings none, and the certificates that no token gets."""

from pathlib import Path
from typing import Annotated, Final

import typer

from hanse.cli.commands.draining import length_s
from hanse.cli.failures import WrongUse
from hanse.cli.options import OutputOption
from hanse.cli.session import session_of

FOLDER: Final = Path("hanse-ca")
CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca-key.pem"

FolderOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the authority is kept.")]


def init(
    folder: FolderOption = FOLDER,
    name: Annotated[str, typer.Option("--federation", metavar="NAME", help="Whose authority it is.")] = "hanse",
    output: OutputOption = None,
) -> None:
    """Make an authority: a certificate that everybody believes, and the key that signs.

    Replicas that sign read both; agents, users and other replicas get the certificate alone. Nothing is written over.

    \b
    hanse ca init --dir hanse-ca
    """
    import time

    from hanse.kit.trust.authority import begin

    cert, key = folder / CA_FILE, folder / CA_KEY_FILE
    made = begin(cert, key, name, now_ms=time.time_ns() // 1_000_000)
    value = {"cert_file": str(cert), "key_file": str(key), "pin": made.pin}
    session_of(None, output).say(value, lambda paper: f"{cert} is what all believe; keep {key} secret\n")


def issue(
    identity: Annotated[
        str, typer.Argument(metavar="hanse://KIND/NAME", help="Whom it stands for: a replica, an agent or a user.")
    ],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Name or address of a replica; repeatable."),
    ] = None,
    lifetime: Annotated[str, typer.Option("--lifetime", metavar="LENGTH", help="How long it is good.")] = "30d",
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FILE", help="File for certificate and key. [default: NAME.pem]")
    ] = None,
    folder: FolderOption = FOLDER,
    output: OutputOption = None,
) -> None:
    """Make a certificate by the authority in a folder: the first one of a replica, or one of a user.

    Certificate and key go in one file. A replica renews its own from then on; a user's is made anew.

    \b
    hanse ca issue hanse://replica/r0 --host r0.example --host 10.0.0.1
    hanse ca issue hanse://user/ana --lifetime 90d
    """
    import time

    from hanse.kit.tls import Kind, TlsFiles, sole_identity
    from hanse.kit.trust.asking import checked_request, new_request
    from hanse.kit.trust.authority import read_authority
    from hanse.kit.trust.files import write_issued

    whose = sole_identity([identity])
    if whose is None:
        raise WrongUse("hanse ca issue: write hanse://replica/NAME, hanse://agent/POOL or hanse://user/NAME")
    if bool(hosts) is not (whose.kind is Kind.REPLICA):
        raise WrongUse("hanse ca issue: a replica has to name its hosts by --host, and nobody else has any")
    authority = read_authority(folder / CA_FILE, folder / CA_KEY_FILE)
    key, request = new_request(whose)
    public = checked_request(request, whose)
    issued = authority.sign(
        public,
        whose,
        now_ms=time.time_ns() // 1_000_000,
        lifetime_s=length_s(lifetime, "--lifetime"),
        hosts=hosts or (),
    )
    own = into or Path(f"{whose.name}.pem")
    write_issued(TlsFiles(None, own, own), issued, key)
    value = {"cert_file": str(own), "key_file": str(own), "ca_file": str(folder / CA_FILE)}
    session_of(None, output).say(value, lambda paper: f"certificate and key of {whose} are in {own}\n")
