"""What an authority signs, and what it refuses to sign."""

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hanse.kit.tls import Identity, Kind, TlsFiles
from hanse.kit.trust.asking import REQUEST_BYTES_MAX, checked_request, new_request
from hanse.kit.trust.authority import Authority, begin, pins_of, read_authority
from hanse.kit.trust.files import check_time, read_shown
from hanse.kit.trust.shown import shown_of
from hanse.kit.trust.token import JoinToken, secret_digest
from hanse.model.errors import AlreadyExists, FailedPrecondition, HanseError, InvalidArgument

NOW_MS = 1_800_000_000_000
OSLO = Identity(Kind.AGENT, "oslo")
R0 = Identity(Kind.REPLICA, "r0")
ANA = Identity(Kind.USER, "ana")
DER = serialization.Encoding.DER


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return begin(tmp_path / "ca.pem", tmp_path / "ca-key.pem", "hanse", now_ms=NOW_MS)


def signed(
    authority: Authority, identity: Identity, *, after_ms: int = 0, lifetime_s: float = 3_600
) -> x509.Certificate:
    _, request = new_request(identity)
    public = checked_request(request, identity)
    hosts = ["r0.example", "10.0.0.1"]
    issued = authority.sign(public, identity, now_ms=NOW_MS, lifetime_s=lifetime_s, hosts=hosts, after_ms=after_ms)
    return x509.load_pem_x509_certificate(issued.certificate)


@pytest.mark.parametrize(
    ("identity", "common", "hosts", "serves"),
    [
        (OSLO, "oslo", (), False),
        (R0, "hanse-global", ("r0.example", "10.0.0.1"), True),
        (ANA, "hanse://user/ana", (), False),
        (Identity(Kind.AGENT, "a" * 65), "", (), False),
    ],
)
def test_a_certificate_is_for_one_identity_and_only_a_replica_s_is_a_server_s(
    authority: Authority, identity: Identity, common: str, hosts: tuple[str, ...], serves: bool
) -> None:
    cert = signed(authority, identity)
    shown = shown_of(cert)
    assert (shown.identity, shown.hosts) == (identity, hosts)
    assert [str(a.value) for a in cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == (
        [common] if common else []
    )
    usages = list(cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert (ExtendedKeyUsageOID.SERVER_AUTH in usages) is serves
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.signs(cert)


def test_a_certificate_begins_a_little_early_but_after_what_was_revoked(authority: Authority) -> None:
    shown = shown_of(signed(authority, OSLO))
    assert (shown.begins_ms, shown.ends_ms) == (NOW_MS - 300_000, NOW_MS + 3_600_000)
    assert shown_of(signed(authority, OSLO, after_ms=NOW_MS - 10_000)).begins_ms == NOW_MS - 9_000
    assert shown_of(signed(authority, OSLO, lifetime_s=20)).begins_ms == NOW_MS - 5_000


def csr(
    *uris: str,
    key: "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None" = None,
    subject: str = "",
    more: x509.ExtensionType | None = None,
    hosts: tuple[str, ...] = (),
) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)] if subject else [])
    made = x509.CertificateSigningRequestBuilder(name)
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    names += [x509.DNSName(host) for host in hosts]
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if more is not None:
        made = made.add_extension(more, critical=True)
    return made.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(DER)


def broken_signature() -> bytes:
    body = bytearray(csr(OSLO.uri))
    body[-3] ^= 0x40
    return bytes(body)


IP = x509.SubjectAlternativeName(
    [x509.UniformResourceIdentifier(OSLO.uri), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))]
)
REQUESTS = {
    "of another pool": csr("hanse://agent/paris"),
    "of two pools": csr(OSLO.uri, "hanse://agent/paris"),
    "of a replica too": csr(OSLO.uri, "hanse://replica/r0"),
    "of a host too": csr(OSLO.uri, hosts=("hanse.example",)),
    "of an address too": csr(more=IP),
    "of nobody": csr(),
    "of an authority": csr(OSLO.uri, more=x509.BasicConstraints(ca=True, path_length=None)),
    "with a usage": csr(OSLO.uri, more=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])),
    "with a common name": csr(OSLO.uri, subject="hanse-global"),
    "with a weak key": csr(OSLO.uri, key=rsa.generate_private_key(65_537, 1_024)),
    "on another curve": csr(OSLO.uri, key=ec.generate_private_key(ec.SECP192R1())),
    "with a signature that is not its key's": broken_signature(),
    "of another version": csr(OSLO.uri).replace(b"\x02\x01\x00", b"\x02\x01\x40", 1),
    "cut off": csr(OSLO.uri)[:-7],
    "empty": b"",
    "as PEM": b"-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END CERTIFICATE REQUEST-----\n",
    "too long": csr(OSLO.uri) + bytes(REQUEST_BYTES_MAX),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_for_more_than_the_asker_is_refused(what: str) -> None:
    with pytest.raises(InvalidArgument, match="signing request is refused") as found:
        checked_request(REQUESTS[what], OSLO)
    assert found.value.reason == "CSR_INVALID"


def test_an_authority_is_never_written_over_and_its_key_is_the_owner_s_alone(tmp_path: Path) -> None:
    made = begin(tmp_path / "ca.pem", tmp_path / "ca-key.pem", "hanse", now_ms=NOW_MS)
    assert (tmp_path / "ca-key.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(AlreadyExists):
        begin(tmp_path / "ca.pem", tmp_path / "other.pem", "hanse", now_ms=NOW_MS)
    read = read_authority(tmp_path / "ca.pem", tmp_path / "ca-key.pem")
    assert read.pin == made.pin
    assert pins_of([x509.load_pem_x509_certificate(made.certificate).public_bytes(DER)]) == {
        made.pin: made.certificate
    }


def test_whoever_renews_gets_the_authorities_that_are_believed_now(tmp_path: Path, authority: Authority) -> None:
    """So an authority is replaced by adding the next one to the file, and waiting for everybody to renew."""
    both = tmp_path / "believed.pem"
    both.write_bytes(authority.certificate)
    read = read_authority(tmp_path / "ca.pem", tmp_path / "ca-key.pem", both)
    public = checked_request(new_request(OSLO)[1], OSLO)
    assert read.sign(public, OSLO, now_ms=NOW_MS, lifetime_s=60).authorities == authority.certificate
    following = begin(tmp_path / "next.pem", tmp_path / "next-key.pem", "hanse", now_ms=NOW_MS)
    both.write_bytes(authority.certificate + following.certificate)
    assert following.certificate in read.sign(public, OSLO, now_ms=NOW_MS, lifetime_s=60).authorities


def test_files_that_are_no_authority_are_named(tmp_path: Path, authority: Authority) -> None:
    begin(tmp_path / "other.pem", tmp_path / "other-key.pem", "hanse", now_ms=NOW_MS)
    leaf = tmp_path / "leaf.pem"
    key, request = new_request(OSLO)
    issued = authority.sign(checked_request(request, OSLO), OSLO, now_ms=NOW_MS, lifetime_s=60)
    leaf.write_bytes(issued.certificate + key)
    for cert, key_file, what in (
        (tmp_path / "ca.pem", tmp_path / "other-key.pem", "is not the key of"),
        (leaf, leaf, "no authority's"),
        (tmp_path / "ca.pem", tmp_path / "ca.pem", "no key"),
        (tmp_path / "none.pem", tmp_path / "ca-key.pem", "cannot be read"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            read_authority(cert, key_file)
    assert pins_of([x509.load_pem_x509_certificate(issued.certificate).public_bytes(DER), b"\x30\x03"]) == {}


def test_a_certificate_that_is_over_says_since_when_and_what_to_do(tmp_path: Path, authority: Authority) -> None:
    own = tmp_path / "oslo.pem"
    key, request = new_request(OSLO)
    issued = authority.sign(checked_request(request, OSLO), OSLO, now_ms=NOW_MS, lifetime_s=60)
    own.write_bytes(issued.certificate + key)
    files = TlsFiles(None, own, own)
    check_time(files, now_ms=NOW_MS + 59_000, advice="do this")
    with pytest.raises(FailedPrecondition, match="of agent oslo is over since 3 hours; do this") as found:
        check_time(files, now_ms=NOW_MS + 60_000 + 3 * 3_600_000, advice="do this")
    assert (found.value.reason, found.value.path) == ("CERTIFICATE_EXPIRED", str(own))
    assert read_shown(own).identity == OSLO


def test_a_token_is_read_back_and_shows_no_secret() -> None:
    token = JoinToken.new("ab" * 32)
    assert JoinToken.read(f" {token.text}\n") == token
    assert token.secret not in repr(token)
    assert secret_digest(token.secret) != secret_digest(JoinToken.new("ab" * 32).secret)


@pytest.mark.parametrize("text", ["", "hj1", "hj2.aa.bb.cc", "hj1." + "a" * 12 + "." + "B" * 48 + "." + "c" * 64])
def test_what_is_no_token_is_not_shown(text: str) -> None:
    with pytest.raises(HanseError) as found:
        JoinToken.read(text)
    assert found.value.reason == "TOKEN_INVALID"
    assert "B" * 48 not in str(found.value)
