"""A real HTTP server on this machine that stores the requests it receives and gives configured answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.answering import answering


class Inbox(ThreadingHTTPServer):
    """Received bodies, in order; `answer` is the status of the next responses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[dict[str, Any]] = []
        self.keys: list[str | None] = []  # of the Idempotency-Key headers
        self.answer = 204
        self.retry_after: str | None = None  # with every answer
        self.moved_to: str | None = None  # with an answer that sends on
        self.retry_after: str | None = None
        self.asked: list[str] = []  # paths of GET, which a login page would answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(json.loads(body))
        self.server.keys.append(self.headers["Idempotency-Key"])
        self.send_response(self.server.answer)
        if self.server.moved_to is not None:
            self.send_header("Location", self.server.moved_to)
        if self.server.retry_after is not None:
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening() -> Iterator[Inbox]:
    """An inbox that answers until the block ends."""
    with answering(Inbox()) as server:
        yield server
