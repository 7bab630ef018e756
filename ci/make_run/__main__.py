"""`make run` once the dashboard is installed: serve what is recorded, then measure while it serves.

    python -m warpwatch.ci.make_run --commits 3 --port 8321 -- make

The Makefile calls it; the command after `--` runs one of its targets.
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

from warpwatch.ci.make_run.measuring import Measuring
from warpwatch.ci.make_run.terminal import Terminal
from warpwatch.dashboard.measurement import Current, Measurement, show_on
from warpwatch.dashboard.serving import DEFAULT_PORT, run_dashboard

_PROJECT = "warpwatch"
_PATIENCE_S = 5.0  # with the thread, once all that it waits for has ended


@click.command()
@click.option("--commits", default=3, show_default=True, type=click.IntRange(1), help="The newest to measure.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="As of serve.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--set-up",
    "set_up",
    nargs=3,
    type=float,
    metavar="BEGAN CREATED INSTALLED",
    help="When `make run` began, had an environment, and had the dashboard's packages in it; seconds since 1970.",
)
@click.argument("make", nargs=-1, required=True)
def make_run(
    commits: int, port: int, opens: bool, set_up: tuple[float, float, float] | None, make: tuple[str, ...]
) -> None:
    """Serve the dashboard until Ctrl+C, and meanwhile measure the newest commits with the targets of MAKE."""
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
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl+C would leave processes behind
            measuring.stop()
            thread.join(timeout=_PATIENCE_S)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGINT is ignored in a script's background
        signal.signal(number, signal.default_int_handler)
    run_dashboard(port=port, opens=opens, while_serving=measure)
    if current.now.state == "running":
        terminal.say("Interrupted. The next make run goes on after the last commit that was measured.")
    sys.exit(measuring.exit_status)


def _first_page(set_up: tuple[float, float, float], imported_s: float, now_s: float) -> str:
    """How long the first page took, and its steps; `make run` states whole seconds."""
    began_s, created_s, installed_s = set_up
    environment, packages = created_s - began_s, installed_s - created_s
    history, dashboard = imported_s - installed_s, now_s - imported_s
    return (
        f"First page after {environment + history + dashboard:.0f} s (environment {environment:.0f} s, "
        f"recorded history {history:.0f} s, dashboard {dashboard:.0f} s), and {packages:.0f} s of package downloads "
        "and installs."
    )


def _wait_for_first_page(address: str) -> None:
    try:
        urllib.request.urlopen(f"{address}{_PROJECT}/", timeout=600).close()
    except URLError as error:  # also an answer that is an error: somebody set a login, for instance
        click.echo(f"warning: the first page was not shown here: {error}", err=True)


if __name__ == "__main__":
    make_run()
