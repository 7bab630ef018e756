"""`make run` after the installation: serve the recorded history, and measure meanwhile.

    python -m warpwatch.ci.make_run --commits 3 --port 8321 -- make

The Makefile calls it; the command after `--` runs a target of the Makefile.
"""

import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError

import click
from flask import Flask

from warpwatch.dashboard.cli.serve import DEFAULT_PORT, run_dashboard
from warpwatch.dashboard.web.measurement import Current, Measurement, show_on

from .measurement_run import Measuring, Terminal

_PROJECT = "warpwatch"
_PATIENCE_S = 5.0  # for the thread, after its processes have ended


@click.command()
@click.option(
    "--commits", default=3, show_default=True, type=click.IntRange(1), help="Number of newest commits to measure."
)
@click.option(
    "--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="As of `warpwatch serve`."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--set-up",
    "set_up",
    nargs=3,
    type=float,
    metavar="START CREATED INSTALLED",
    help="Times when `make run` started, had an environment, and had installed packages; seconds since 1970.",
)
@click.argument("make", nargs=-1, required=True)
def make_run(
    commits: int, port: int, opens: bool, set_up: tuple[float, float, float] | None, make: tuple[str, ...]
) -> None:
    """Serve the dashboard until Ctrl+C, and meanwhile measure the newest commits with targets of MAKE."""
    imported_s = time.time()
    terminal = Terminal()
    current = Current(project=_PROJECT, now=Measurement(state="running", task="starting"))
    measuring = Measuring([*make, f"COMMITS={commits}"], commits, current, terminal)

    def work(address: str) -> None:
        _wait_for_first_page(address)
        terminal.say(_first_page(set_up or (imported_s,) * 3, imported_s, time.time()))
        measuring.run()

    @contextmanager
    def measure(app: Flask, address: str) -> Iterator[None]:
        show_on(app.extensions, current)
        thread = threading.Thread(target=work, args=(address,), name="warpwatch-measuring", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl+C would leave processes running
            measuring.stop()
            thread.join(timeout=_PATIENCE_S)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # background jobs of a script ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    run_dashboard(port=port, opens=opens, while_serving=measure)
    if current.now.state == "running":
        terminal.say("Interrupted. The next `make run` continues after the last measured commit.")
    sys.exit(measuring.exit_status)


def _first_page(set_up: tuple[float, float, float], imported_s: float, now_s: float) -> str:
    """Seconds until the first page, by step; `make run` passes whole seconds."""
    started_s, created_s, installed_s = set_up
    environment, packages = created_s - started_s, installed_s - created_s
    history, dashboard = imported_s - installed_s, now_s - imported_s
    return (
        f"First page after {environment + history + dashboard:.0f} s (environment {environment:.0f} s, "
        f"recorded history {history:.0f} s, dashboard {dashboard:.0f} s), and {packages:.0f} s of package downloads "
        "and installs."
    )


def _wait_for_first_page(address: str) -> None:
    try:
        urllib.request.urlopen(f"{address}{_PROJECT}/", timeout=600).close()
    except URLError as error:  # also an HTTP error, such as a required login
        click.echo(f"warning: the first page cannot be loaded here: {error}", err=True)


if __name__ == "__main__":
    make_run()
