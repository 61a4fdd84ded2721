"""Opens the bus that an address names; each adapter is imported only when it is asked for.

``inprocess:`` reaches whoever shares the object; ``mqtt://[USER:PASSWORD@]HOST[:PORT]`` and
``mqtts://…[?ca=FILE][&cert=FILE&key=FILE]`` reach whoever connects to the same broker.
"""

import random

from hanse.bus.contract import Bus
from hanse.model.errors import InvalidArgument


def open_bus(url: str, *, rng: random.Random | None = None) -> Bus:
    """The bus; nothing is connected before somebody asks it to.

    Raises:
        InvalidArgument: the address is wrong, or names a certificate that cannot be read.
    """
    kind, _, rest = url.partition(":")
    match kind:
        case "inprocess" if not rest:
            from hanse.bus.inprocess import InProcessBus

            return InProcessBus()
        case "mqtt" | "mqtts":
            from hanse.bus.mqtt import MqttBus
            from hanse.bus.mqtt_options import MqttOptions

            return MqttBus(MqttOptions.from_url(url), rng=rng)
        case _:
            what = "bus address: it names no kind of bus: write mqtt://HOST:PORT, mqtts://HOST:PORT or inprocess:"
            raise InvalidArgument(what, reason="BUS_ADDRESS")
