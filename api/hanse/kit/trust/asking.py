"""Asking for a certificate: a key that never leaves its machine, and a signed request that says whose it is.

An authority takes the public key from a request, and the proof that the asker has the private one. Everything else
it knows better: whom the certificate is for comes from the token or the certificate of the asker. A request that asks
for more, such as other names or the right to sign, is refused rather than cut down: nobody asks for that by mistake.
"""

from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID

from hanse.kit.tls import Identity
from hanse.kit.trust.shown import UNREADABLE, alternative_names
from hanse.model.errors import InvalidArgument

REQUEST_BYTES_MAX: Final = 8 * 1024
CURVES: Final = (ec.SECP256R1, ec.SECP384R1)


def new_request(identity: Identity) -> tuple[bytes, bytes]:
    """A new private key as PEM, and a request for a certificate of an identity as DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.uri)])
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(names, critical=True)
    request = made.sign(key, hashes.SHA256())
    return private_pem(key), request.public_bytes(serialization.Encoding.DER)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, without a password."""
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def checked_request(data: bytes, identity: Identity) -> ec.EllipticCurvePublicKey:
    """The public key of a request, by whoever is to become that identity.

    Raises:
        InvalidArgument: reason CSR_INVALID.
    """
    if len(data) > REQUEST_BYTES_MAX:
        raise _bad(f"it has {len(data)} bytes; at most {REQUEST_BYTES_MAX} are read")
    try:
        request = x509.load_der_x509_csr(data)
        key, extensions, signed = request.public_key(), request.extensions, request.is_signature_valid
        asked = [str(name.value) for name in alternative_names(extensions)]
    except UNREADABLE:
        raise _bad("it is no certificate signing request") from None
    if not signed:
        raise _bad("its signature is not by its key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, CURVES):
        raise _bad("its key is not on the curve P-256 or P-384")
    if [one.oid for one in extensions] != [ExtensionOID.SUBJECT_ALTERNATIVE_NAME] or list(request.subject):
        raise _bad("it asks for more than the name of the asker")
    if asked != [identity.uri]:
        raise _bad(f"it asks for {', '.join(asked)[:200] or 'nothing'}; only {identity.uri} would be signed")
    return key


def key_digest(key: ec.EllipticCurvePublicKey) -> str:
    """What a public key is known by: SHA-256 of its SubjectPublicKeyInfo, in hexadecimal."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    return digest.finalize().hex()


def _bad(what: str) -> InvalidArgument:
    return InvalidArgument(f"the signing request is refused: {what}", reason="CSR_INVALID", path="request")
