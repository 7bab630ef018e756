"""Clients that send a request very slowly, over real sockets: they are hung up on, and others are answered."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from waitress import wasyncore

from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.server import make_server

Serve = Callable[..., tuple[str, int]]
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves a dashboard with these limits; gives host and port."""
    app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}"))
    with ExitStack() as stack:

        def run(**limits: float) -> tuple[str, int]:
            listener = socket.create_server(("127.0.0.1", 0))
            server = make_server(app, listener, threads=2, most_body_bytes=2**24, **limits)  # type: ignore[arg-type]
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()

            def close() -> None:
                server.task_dispatcher.shutdown(timeout=60)
                server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map, ignore_all=True))
                thread.join(timeout=60)

            stack.callback(close)
            return "127.0.0.1", server.effective_port

        yield run
    app.extensions["store"].close()


def _connect(stack: ExitStack, address: tuple[str, int], sent: bytes) -> socket.socket:
    made = stack.enter_context(socket.create_connection(address, timeout=60))
    made.sendall(sent)
    return made


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(65536))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _answers(address: tuple[str, int]) -> bool:
    return requests.get(f"http://{address[0]}:{address[1]}/healthz", timeout=60).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HEAD, b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"],
    ids=["nothing", "a byte", "half a head", "a body's first byte"],
)
def test_more_slow_connections_than_there_is_room_for_lock_no_client_out(sent: bytes, serve: Serve) -> None:
    address = serve(connections=40, head_s=3600.0)
    with ExitStack() as stack:
        slow = [_connect(stack, address, sent) for _ in range(60)]
        for _ in range(3):
            assert _answers(address)
        assert sum(map(_is_open, slow)) < 40


def test_a_hundred_slow_connections_are_no_matter(serve: Serve) -> None:
    """As many as waitress takes by itself."""
    address = serve()
    with ExitStack() as stack:
        slow = [_connect(stack, address, HEAD) for _ in range(105)]
        assert _answers(address)
        assert all(map(_is_open, slow))


def test_a_head_has_a_deadline_however_steadily_it_trickles(serve: Serve) -> None:
    address = serve(head_s=1.0)
    with ExitStack() as stack:
        trickling = _connect(stack, address, HEAD)
        deadline = time.monotonic() + 60
        while _is_open(trickling):
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                trickling.sendall(b"X-A: b\r\n")
            time.sleep(0.05)
        assert _answers(address)


def test_a_connection_may_rest_between_requests_for_longer_than_a_head_may_take(serve: Serve) -> None:
    kept = http.client.HTTPConnection(*serve(head_s=1.0), timeout=60)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    its_socket = kept.sock
    time.sleep(4)
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200
    assert kept.sock is its_socket
    kept.close()


def test_a_fast_upload_is_not_taken_for_a_slow_one(serve: Serve) -> None:
    """However crowded it is: the slowest go first."""
    address = serve(connections=40, head_s=3600.0)
    body = b"x" * 2**22
    head = b"POST /api/projects/demo/results HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with ExitStack() as stack:
        upload = _connect(stack, address, head + body[: 2**20])
        for _ in range(60):
            _connect(stack, address, HEAD)
        for start in range(1, 4):
            time.sleep(1)
            upload.sendall(body[start * 2**20 : (start + 1) * 2**20])
        assert b"401" in upload.recv(65536)
        assert _answers(address)
