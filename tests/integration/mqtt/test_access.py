"""Users, certificates, access lists, and words for what is wrong."""

import base64
import hashlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hanse.bus.contract import BusUnavailable
from hanse.bus.mqtt import MqttBus
from hanse.bus.mqtt_options import MqttOptions
from tests.contract.bus_contract.test_bus import client, ends, one, until
from tests.services.certificates import Certificates
from tests.services.mosquitto import Broker, mosquitto
from tests.services.process import free_ports

PASSWORD = "a word: with @ and /"


def password_line(user: str, password: str) -> str:
    """As mosquitto_passwd writes it."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Two users; `agent` may publish about its own pool only, `replica` may read all pools."""
    folder: Path = tmp_path_factory.mktemp("mosquitto")
    folder.chmod(0o755)
    passwords, access = folder / "passwords", folder / "access"
    passwords.write_text("\n".join(password_line(user, PASSWORD) for user in ("agent", "replica")) + "\n")
    access.write_text(
        "user agent\ntopic write hanse/v1/f/pools/agent/#\ntopic readwrite hanse/v1/bus/holders/#\n"
        "user replica\ntopic read hanse/v1/f/pools/#\ntopic readwrite hanse/v1/bus/holders/#\n"
    )
    for file in (passwords, access):
        file.chmod(0o644)
    lines = ["allow_anonymous false", f"password_file {passwords}", f"acl_file {access}", "user root"]
    with mosquitto(lines=lines) as started:
        yield started


@pytest.fixture(scope="module")
def private(certificates: Certificates) -> Iterator[Broker]:
    """With TLS, and certificates of clients demanded."""
    mine = certificates
    lines = [
        *(f"cafile {mine.ca}", f"certfile {mine.server_cert}", f"keyfile {mine.server_key}"),
        *("require_certificate true", "use_identity_as_username true", "allow_anonymous false", "user root"),
    ]
    with mosquitto(lines=lines) as started:
        yield started


def login(broker: Broker, user: str, password: str = PASSWORD) -> MqttBus:
    return MqttBus(replace(broker.options, user=user, password=password))


async def test_users_do_what_they_may(guarded: Broker) -> None:
    async with client(login(guarded, "replica"), "r") as replica, client(login(guarded, "agent"), "a") as agent:
        subscription = await replica.subscribe("hanse/v1/f/pools/+/summary")
        await agent.publish("hanse/v1/f/pools/agent/summary", b"mine")
        assert (await one(subscription)).payload == b"mine"


async def test_what_a_user_may_not_publish_is_lost_and_logged(
    guarded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(login(guarded, "replica"), "r") as replica, client(login(guarded, "agent"), "a") as agent:
        subscription = await replica.subscribe("hanse/v1/f/pools/+/summary")
        with caplog.at_level(logging.WARNING, logger="hanse.bus"):
            await agent.publish("hanse/v1/f/pools/other/summary", b"forged")
        await agent.publish("hanse/v1/f/pools/agent/summary", b"mine")
        assert [message.payload for message in await until(subscription, ends(b"mine"))] == [b"mine"]
        assert [(record.message, record.cause) for record in caplog.records] == [  # type: ignore[attr-defined]
            ("bus_publish_refused", "Not authorized")
        ]


@pytest.mark.parametrize(("user", "password"), [("agent", "wrong-word"), ("nobody", "wrong-word"), ("", "")])
async def test_a_wrong_login_is_refused_in_one_line_without_it(guarded: Broker, user: str, password: str) -> None:
    with pytest.raises(BusUnavailable, match="Not authorized") as caught:
        await login(guarded, user, password).connect("a")
    assert "wrong-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def secure(broker: Broker, ca: Path, cert: Path | None, key: Path | None) -> MqttBus:
    return MqttBus(replace(broker.options, tls=True, ca=ca, cert=cert, key=key))


async def test_tls_with_certificates_of_both_sides(private: Broker, certificates: Certificates) -> None:
    mine = certificates
    async with client(secure(private, mine.ca, mine.client_cert, mine.client_key), "a") as a:
        subscription = await a.subscribe("t")
        await a.publish("t", bytes(16_000))
        assert (await one(subscription)).payload == bytes(16_000)


async def test_files_are_read_whenever_a_client_connects(
    private: Broker, certificates: Certificates, tmp_path: Path
) -> None:
    """So that certificates can be renewed under a bus that runs."""
    mine, cert, key = certificates, tmp_path / "cert.pem", tmp_path / "key.pem"

    def renew(of_cert: Path, of_key: Path) -> None:
        cert.write_bytes(of_cert.read_bytes())
        key.write_bytes(of_key.read_bytes())

    renew(mine.other_cert, mine.other_key)
    bus = secure(private, mine.ca, cert, key)
    with pytest.raises(BusUnavailable):
        await bus.connect("a")
    renew(mine.client_cert, mine.client_key)
    async with client(bus, "a") as a:
        key.write_bytes(mine.other_key.read_bytes())  # half renewed
        with pytest.raises(BusUnavailable, match="cannot be used"):
            await bus.connect("b")
        await a.publish("t", b"still there")


async def test_a_broker_that_a_stranger_vouches_for_is_refused(private: Broker, certificates: Certificates) -> None:
    mine = certificates
    with pytest.raises(BusUnavailable, match=r"(?i)certificate verify failed"):
        await secure(private, mine.other_ca, mine.client_cert, mine.client_key).connect("a")


@pytest.mark.parametrize("shown", ["none", "a stranger's"])
async def test_a_client_without_a_good_certificate_is_refused(
    private: Broker, certificates: Certificates, shown: str
) -> None:
    mine = certificates
    cert, key = (None, None) if shown == "none" else (mine.other_cert, mine.other_key)
    with pytest.raises(BusUnavailable) as caught:
        await secure(private, mine.ca, cert, key).connect("a")
    assert "\n" not in str(caught.value)


async def test_a_broker_that_is_not_there_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(BusUnavailable, match=f"127.0.0.1:{port} cannot be used"):
        await MqttBus(MqttOptions(host="127.0.0.1", port=port)).connect("a")
