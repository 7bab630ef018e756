"""CPU time of a scan of `warpwatch alert`: `python -m tools.alert_scans HISTORY.db`, SQLite.

Works on a copy of the store, and sends to a webhook on this machine.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import click

from warpwatch.ci.alerts.alert_round import Round
from warpwatch.ci.alerts.outbox_sender import Destinations
from warpwatch.ci.policy.policy_model import AlertsTable
from warpwatch.dashboard.cli.store_access import choose_project
from warpwatch.dashboard.store import Store

Result = TypeVar("Result")


@click.command()
@click.argument("database", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--scans", type=click.IntRange(1), default=3, show_default=True)
def main(database: Path, scans: int) -> None:
    """Scan the store's only project several times, and send after each scan."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(shutil.copy(database, folder)))
        policy = AlertsTable()
        alerts = Round(
            store=store,
            project=choose_project(store, None).name,
            policy=policy,
            places=Destinations(policy, [f"http://127.0.0.1:{server.server_port}/"], {}),
        )
        for number in range(1, scans + 1):
            scan, cpu_s = _timed(alerts.scan)
            sent, sending_s = _timed(lambda: alerts.send(only_due=True))
            click.echo(
                f"scan {number}: {len(scan.messages)} messages, {cpu_s:.2f} s of CPU; "
                f"{sent.sent} sent, {sending_s:.2f} s, with the receiver's"
            )
        store.close()
    server.shutdown()


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    return work(), time.process_time() - start


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    main()
