"""An issuer of tokens that a test has: its keys, and tokens that say what the test wants."""

import base64
import json
import time
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER: Final = "https://login.example.org/realm"
AUDIENCE: Final = "hanse"

RSA_KEY: Final = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER_KEY: Final = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
WEAK_KEY: Final = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
EC_KEY: Final = ec.generate_private_key(ec.SECP256R1())
ED_KEY: Final = ed25519.Ed25519PrivateKey.generate()

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def jwk(key: PrivateKey, kid: str, **more: object) -> dict[str, Any]:
    """The public half as an issuer publishes it."""
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        made = jwt.algorithms.RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        made = jwt.algorithms.ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        made = jwt.algorithms.OKPAlgorithm.to_jwk(public, as_dict=True)
    return {**made, "kid": kid, "use": "sig", **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def pem(key: PrivateKey) -> bytes:
    """The public half as text: what a server that confuses algorithms would take for a shared secret."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def claims(**said: object) -> dict[str, object]:
    """What a good token says; None leaves a claim out."""
    now = int(time.time())
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ana", "iat": now, "exp": now + 600, "groups": ["vision"], **said}
    return {name: value for name, value in found.items() if value is not None}


def token(
    key: Any = RSA_KEY,
    algorithm: str = "RS256",
    *,
    kid: str | None = "k1",
    headers: dict[str, Any] | None = None,
    **said: object,
) -> str:
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**said), key, algorithm=algorithm, headers={**named, **(headers or {})})


def raw(header: object, payload: object, signature: bytes = b"") -> str:
    """A token of these very parts."""

    def part(value: object) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return f"{part(header)}.{part(payload)}.{part(signature)}"
