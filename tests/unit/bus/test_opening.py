"""Addresses of buses: each kind opens, and what is wrong is told in one line without the password."""

import subprocess
import sys
from pathlib import Path

import pytest

from hanse.bus.inprocess import InProcessBus
from hanse.bus.mqtt import MqttBus
from hanse.bus.mqtt_options import MqttOptions
from hanse.bus.opening import open_bus
from hanse.model.errors import InvalidArgument

RIGHT = {
    "mqtt://broker": MqttOptions(host="broker", port=1883),
    "mqtt://broker:2000/": MqttOptions(host="broker", port=2000),
    "mqtts://broker": MqttOptions(host="broker", port=8883, tls=True),
    "mqtt://[::1]:1883": MqttOptions(host="::1", port=1883),
    "mqtt://u:p%40%2F@broker": MqttOptions(host="broker", user="u", password="p@/"),
    "mqtts://b?ca=x&cert=y&key=z": MqttOptions(
        host="b", port=8883, tls=True, ca=Path("x"), cert=Path("y"), key=Path("z")
    ),
}
WRONG = {
    "no kind": "broker:1883",
    "another kind": "amqp://broker",
    "nothing": "",
    "inprocess with a name": "inprocess:x",
    "no slashes": "mqtt:broker",
    "no host": "mqtt://",
    "only a port": "mqtt://:1883",
    "a path": "mqtt://broker/topic",
    "a bad port": "mqtt://broker:0",
    "a word for a port": "mqtt://broker:mqtt",
    "a port too high": "mqtt://broker:70000",
    "an unknown option": "mqtts://broker?tls=1",
    "a certificate without TLS": "mqtt://broker?ca=x",
    "a certificate without its key": "mqtts://broker?cert=y",
    "a file that is not there": "mqtts://broker?ca=not-there.pem",
}


def test_the_bus_of_one_process_opens() -> None:
    assert isinstance(open_bus("inprocess:"), InProcessBus)


def test_a_broker_is_not_asked_before_somebody_connects() -> None:
    bus = open_bus("mqtt://broker.invalid")
    assert isinstance(bus, MqttBus)
    assert bus.endpoint == "broker.invalid:1883"


@pytest.mark.parametrize("url", RIGHT)
def test_an_address_says_how_to_reach_the_broker(url: str) -> None:
    assert MqttOptions.from_url(url) == RIGHT[url]


@pytest.mark.parametrize("url", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_address_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_bus(url)
    assert str(caught.value).startswith("bus address: ")
    assert "\n" not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_bus("mqtt://hanse:secret@a:port")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(MqttOptions.from_url("mqtt://hanse:secret@a"))


def test_what_is_not_asked_for_is_not_imported() -> None:
    code = "import sys, hanse.bus.opening; print([n for n in ('aiomqtt', 'paho') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
