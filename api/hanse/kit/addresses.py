"""Which addresses are this machine's own."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host. A name is asked of nobody: only `localhost` is believed."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
