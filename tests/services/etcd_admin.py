"""What an operator does with etcdctl, spoken by hand, because not every machine that has etcd has etcdctl.

The messages are few and flat, so they are written as fields here instead of being added to the product's proto.
"""

from typing import Final

import grpc

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.etcd.v3 import rpc_pb2_grpc as rpc
from tests.services.etcd import EtcdServers

TIMEOUT_S: Final = 20.0
READWRITE: Final = 2
DEACTIVATE: Final = 2
NOSPACE: Final = 1

Field = tuple[int, bytes | str | int]


def message(*fields: Field) -> bytes:
    """Protobuf: numbers as varints, the rest with their lengths."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            body = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(body)) + body
    return bytes(out)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class Operator:
    """Root of one cluster, through its first member unless said otherwise."""

    def __init__(self, servers: EtcdServers) -> None:
        self._servers = servers
        self._password = ""

    def add_user(self, user: str, password: str, *prefixes: str) -> None:
        """With a role of the same name that may read and write the keys under the prefixes ("": every key)."""
        self._call("Auth/UserAdd", (1, user), (2, password))
        self._call("Auth/RoleAdd", (1, user))
        for prefix in prefixes:
            key, end = (prefix.encode() or b"\0"), (_prefix_end(prefix.encode()) if prefix else b"\0")
            permission = message((1, READWRITE), (2, key), (3, end))
            self._call("Auth/RoleGrantPermission", (1, user), (2, permission))
        self._call("Auth/UserGrantRole", (1, user), (2, user))

    def enable_auth(self, password: str) -> None:
        self._call("Auth/UserAdd", (1, "root"), (2, password))
        self._call("Auth/RoleAdd", (1, "root"))
        self._call("Auth/UserGrantRole", (1, "root"), (2, "root"))
        self._call("Auth/AuthEnable")
        self._password = password

    def change_password(self, user: str, password: str) -> None:
        """Every token of that user is void from now on."""
        self._call("Auth/UserChangePassword", (1, user), (2, password))

    def defragment(self) -> None:
        """Every member, one after the other."""
        for n in range(len(self._servers.members)):
            self._call("Maintenance/Defragment", member=n)

    def disarm(self) -> None:
        """Lift the alarm that there is no space, of every member."""
        for n in range(len(self._servers.members)):
            member_id = self._servers.status(n).header.member_id
            self._call("Maintenance/Alarm", (1, DEACTIVATE), (2, member_id), (3, NOSPACE))

    def _call(self, method: str, *fields: Field, member: int = 0) -> bytes:
        with self._servers.channel(member) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/etcdserverpb.{method}")
            return call(message(*fields), timeout=TIMEOUT_S, metadata=self._metadata(channel))

    def _metadata(self, channel: grpc.Channel) -> tuple[tuple[str, str], ...]:
        if not self._password:
            return ()
        request = pb.AuthenticateRequest(name="root", password=self._password)
        return (("token", rpc.AuthStub(channel).Authenticate(request, timeout=TIMEOUT_S).token),)


def _prefix_end(prefix: bytes) -> bytes:
    return prefix[:-1] + bytes([prefix[-1] + 1])
