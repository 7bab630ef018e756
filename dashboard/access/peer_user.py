"""Which user of this machine is at the other end of a connection over the loopback address.

Linux tells the user of a TCP socket that is named (sock_diag(7)), and lists all with theirs (proc_pid_net(5), "tcp").
A proxy for others that runs beside the dashboard has a user of its own, and so have other people who work on the
machine.
"""

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = 1
_NO_INODE = 0  # of a socket that its process has closed: its user is told as 0 then, which is root's number
_WORD = 4  # bytes: addresses are words in the byte order of the machine
# <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h>
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBxxI")  # struct inet_diag_req_v2: family, protocol, states
_SOCKET = struct.Struct("!HH16s16s12s")  # struct inet_diag_sockid: ports and addresses, interface and cookie
_TOLD = struct.Struct("=BBxx48xIIIII")  # struct inet_diag_msg: family, state; expires, queues, user, inode
_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _A_REQUEST = 4, 20, 1
_ANY_STATE, _ANY_SOCKET = 0xFFFFFFFF, b"\0" * 4 + b"\xff" * 8
_LONGEST_ANSWER = 8192

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Asker(Enum):
    """Whose the other end of a connection is."""

    SAME_USER = "same user"
    ANOTHER = "another"  # or one that has closed its end, or lies on another machine
    UNKNOWN = "unknown"  # this system does not tell


def asker(environ: Mapping[str, Any], served_on: str, own_user: int) -> Asker:
    """Whose the peer of a WSGI request is, by REMOTE_ADDR, REMOTE_PORT and SERVER_PORT. The server listens to that
    loopback address, or to `localhost`.
    """
    try:
        address = _plain(ipaddress.ip_address(environ.get("REMOTE_ADDR", "")))
        port, to = int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"])
    except (KeyError, ValueError):  # a server that does not tell, a Unix socket
        return Asker.UNKNOWN
    user = _user(address, port, ipaddress.ip_address("127.0.0.1" if served_on == "localhost" else served_on), to)
    if user is not None:
        return Asker.SAME_USER if user == own_user else Asker.ANOTHER
    # Not there under that address, or a system that tells of all alone: 0.7 ms for a list, 6 ms where it is long.
    tables = [table for table in _TABLES if table.exists()]
    if not tables:
        return Asker.UNKNOWN
    for table in tables:  # the second has IPv6 alone
        users = set(_users(table.read_text(), address, port, to))
        if users:
            return Asker.SAME_USER if users == {own_user} else Asker.ANOTHER
    return Asker.ANOTHER


def _user(address: Address, port: int, server: Address, to: int) -> int | None:
    """The user of the open socket from the one address and port to the other."""
    if not hasattr(socket, "AF_NETLINK") or address.version != server.version:
        return None
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    wanted = _REQUEST.pack(family, socket.IPPROTO_TCP, _ANY_STATE) + _SOCKET.pack(
        port, to, address.packed, server.packed, _ANY_SOCKET
    )
    header = _HEADER.pack(_HEADER.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _A_REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asking:
            asking.send(header + wanted)
            answer = asking.recv(_LONGEST_ANSWER)
    except OSError:  # a kernel without it
        return None
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: there is none
    _, state, *_, user, inode = _TOLD.unpack_from(answer, _HEADER.size)
    return int(user) if state == _ESTABLISHED and inode != _NO_INODE else None


def _users(table: str, address: Address, port: int, to: int) -> Iterator[int]:
    """The users of open sockets from that address and port to the other port."""
    ends, begins = f":{to:04X} ", f":{port:04X} "
    for line in table.splitlines()[1:]:
        if begins not in line or ends not in line:
            continue
        _, here, there, state, *_ = fields = line.split()
        if int(state, 16) != _ESTABLISHED or int(fields[9]) == _NO_INODE:
            continue
        place, _, its_port = here.partition(":")
        if (int(its_port, 16), int(there.partition(":")[2], 16)) == (port, to) and _address(place) == address:
            yield int(fields[7])


def _address(told: str) -> Address:
    raw = bytes.fromhex(told)
    words = (raw[place : place + _WORD] for place in range(0, len(raw), _WORD))
    return _plain(ipaddress.ip_address(b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)))


def _plain(address: Address) -> Address:
    """An IPv4 address that an IPv6 socket tells, as itself."""
    return getattr(address, "ipv4_mapped", None) or address
