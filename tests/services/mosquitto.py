"""A real MQTT broker on the loopback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hanse.bus.mqtt_options import MqttOptions
from tests.services.binaries import need
from tests.services.process import ServerProcess, accepts, data_folder, free_ports

BASICS: Final = ("max_queued_messages 100000", "max_queued_bytes 67108864", "allow_anonymous true")


class Broker:
    """One mosquitto; by default it lets everybody in and keeps nothing over a restart."""

    def __init__(self, folder: Path, *, lines: Sequence[str] = BASICS) -> None:
        (self.port,) = free_ports(1)
        config = folder / "mosquitto.conf"
        config.write_text("\n".join([f"listener {self.port} 127.0.0.1", *lines, ""]))
        command = [str(need("mosquitto")), "-c", str(config)]
        self.process = ServerProcess("mosquitto", command, folder, ready=lambda: accepts(self.port))

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def options(self) -> MqttOptions:
        return MqttOptions(host="127.0.0.1", port=self.port)


@contextmanager
def mosquitto(*, lines: Sequence[str] = BASICS) -> Iterator[Broker]:
    """Started, and stopped at the end."""
    with data_folder() as folder:
        broker = Broker(folder, lines=lines)
        try:
            broker.process.start()
            yield broker
        finally:
            broker.process.kill()
