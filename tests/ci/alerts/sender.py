"""Processes that a test starts to strike them: one that sends, and one that receives over HTTP or SMTP."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from warpwatch.ci.alerts.channels import mail
from warpwatch.ci.alerts.outbox_sender import Destinations, deliver_outbox
from warpwatch.ci.policy.policy_model import AlertsTable
from warpwatch.dashboard.store import Store

mail.account_of("mailto://localhost?from=a@w.org&to=b@w.org")  # loads what a sender killed early never would


def send(database: str, to: tuple[str, ...]) -> None:
    """Empties the outbox once."""
    store = Store(database)
    deliver_outbox(
        store,
        Destinations(AlertsTable(), to, {}),
        give_up_days=7,
        only_due=False,
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    store.close()


def receive_http(port: int, kept: str) -> None:
    """Writes the key of each message down before it answers, until it is killed."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keep(kept, self.headers["Idempotency-Key"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def receive_smtp(port: int, kept: str) -> None:
    """Writes the Message-ID of each mail down before it takes it, until it is killed."""

    class Handler:
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
            content = bytes(envelope.content or b"")
            (line,) = (line for line in content.splitlines() if line.lower().startswith(b"message-id:"))
            keep(kept, line.partition(b":")[2].decode().strip())
            return "250 taken"

    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()
    while True:
        time.sleep(60)


def keep(path: str, key: str) -> None:
    """A line more, whole or not at all."""
    with Path(path).open("a") as file:
        file.write(key + "\n")
