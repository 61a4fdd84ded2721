"""Certificates for tests that speak TLS: an authority, a server at 127.0.0.1, a client named `hanse`, and a stranger
whom nobody trusts."""

from pathlib import Path

import trustme


class Certificates:
    """PEM files below a folder."""

    def __init__(self, folder: Path) -> None:
        authority, stranger = trustme.CA(), trustme.CA()
        self.ca, self.other_ca = folder / "ca.pem", folder / "other-ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        stranger.cert_pem.write_to_path(self.other_ca)
        self.server_cert, self.server_key = _write(authority.issue_cert("127.0.0.1", "localhost"), folder, "server")
        client = authority.issue_cert("hanse@client", common_name="hanse")
        self.client_cert, self.client_key = _write(client, folder, "client")
        agent = authority.issue_cert("oslo@client", common_name="oslo")
        self.agent_cert, self.agent_key = _write(agent, folder, "agent")
        self.other_cert, self.other_key = _write(stranger.issue_cert("other@client"), folder, "other")

    def etcd_flags(self) -> list[str]:
        """The server shows its certificate and asks for one."""
        return [
            *("--cert-file", str(self.server_cert), "--key-file", str(self.server_key)),
            *("--trusted-ca-file", str(self.ca), "--client-cert-auth"),
        ]


def _write(issued: trustme.LeafCert, folder: Path, name: str) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return cert, key
