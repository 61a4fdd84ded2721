"""A process that connects with a will, says that it is there, and waits to be killed.

crashing_client.py PORT CLIENT_ID TOPIC
"""

import asyncio
import sys

from hanse.bus.contract import BusUnavailable, Will
from hanse.bus.mqtt import MqttBus
from hanse.bus.mqtt_options import MqttOptions


async def main(port: int, client_id: str, topic: str) -> None:
    bus = MqttBus(MqttOptions(host="127.0.0.1", port=port, keepalive_s=1))
    connection = await bus.connect(client_id, will=Will(topic, b"gone", retain=True))
    try:
        await connection.publish(topic, b"here", retain=True)
    except BusUnavailable as error:
        # It was stopped while it waited for the answer; what it has to say is said again when it is connected again.
        print(error, file=sys.stderr)
    await asyncio.Event().wait()


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
