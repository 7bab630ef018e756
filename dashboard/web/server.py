"""waitress with a deadline for a request's head, and room for new connections however many slow ones there are.

waitress itself stops accepting at its limit, and begins its time-out anew with each byte: a hundred clients that send
a byte a minute would lock everybody else out.
"""

import resource
import socket
import time

from flask import Flask
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

CONNECTIONS = 1000  # at once; a browser holds up to six
HEAD_S = 20.0  # for a whole request head, from its first byte
_CROWDED = 0.8  # of all connections: from here on the slowest are closed
_GRACE_S = 2.0  # before a connection may count as slow
_FILES_OF_OTHERS = 0.5  # of the files that a process may open, which the store and answers need


class _Channel(HTTPChannel):
    """A connection that knows when the request began that it is receiving."""

    request_began = 0.0  # seconds since 1970

    def received(self, data: bytes) -> bool:
        before = self.request
        found: bool = super().received(data)
        if self.request is not before:
            self.request_began = time.time()
        return found

    @property
    def waits(self) -> bool:
        """Whether it is the client that has to send or read something."""
        return not self.requests and not self.will_close

    def is_late(self, now: float, head_s: float) -> bool:
        """Whether a request head is not complete in time."""
        return self.request is not None and not self.request.headers_finished and now - self.request_began > head_s

    def bytes_per_second(self, now: float) -> float:
        """How fast the client sends its request; 0 of one that sends none."""
        if self.request is None:
            return 0.0
        sent = self.request.header_bytes_received + self.request.body_bytes_received
        return float(sent) / max(now - self.request_began, _GRACE_S)


class Server(TcpWSGIServer):
    """A waitress server that closes slow connections before the limit of connections is reached."""

    channel_class = _Channel
    head_s = HEAD_S

    def maintenance(self, now: float) -> None:
        """Closes connections whose request head is late and, near the limit of connections, the slowest ones."""
        super().maintenance(now)
        waiting = [channel for channel in self.active_channels.values() if channel.waits]
        for channel in waiting:
            channel.will_close = channel.is_late(now, self.head_s)
        most = int(self.adj.connection_limit * _CROWDED)
        surplus = len(self.active_channels) - most
        if surplus <= 0:
            return
        slow = [channel for channel in waiting if channel.waits and now - channel.creation_time > _GRACE_S]
        slow.sort(key=lambda channel: (channel.bytes_per_second(now), channel.last_activity))
        for channel in slow[:surplus]:
            channel.will_close = True


def make_server(
    app: Flask,
    listener: socket.socket,
    *,
    threads: int,
    most_body_bytes: int,
    connections: int = CONNECTIONS,
    head_s: float = HEAD_S,
) -> Server:
    """A server of the application on a socket that listens."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:
        connections = min(connections, int(files * _FILES_OF_OTHERS))
    settings = Adjustments(
        sockets=[listener],
        threads=threads,
        ident="warpwatch",
        connection_limit=connections,
        asyncore_use_poll=True,  # select() takes no more than 1,024 files
        cleanup_interval=1,
        max_request_body_size=most_body_bytes,
        clear_untrusted_proxy_headers=False,  # the application must see that a proxy forwarded the request
    )
    dispatcher = ThreadedTaskDispatcher()
    dispatcher.set_thread_count(threads)
    address = (listener.family, listener.type, listener.proto, listener.getsockname())
    server = Server(app, {}, True, listener, dispatcher=dispatcher, adj=settings, bind_socket=False, sockinfo=address)
    server.head_s = head_s
    return server


def allow_more_files() -> None:
    """Raises this process' own limit of open files, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
