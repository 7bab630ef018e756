"""`warpwatch alert`: new regressions become alerts, and each alert is sent once to each destination."""

import hashlib
import json
import os
import socket
import time
from dataclasses import asdict, replace

import click

from warpwatch.ci.delivery import DeliveryError, Message, check_destination, deliver
from warpwatch.ci.message import compose
from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.opening import open_store
from warpwatch.dashboard.statistics.false_discovery import LIMIT
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.alerts import new_regressions, open_alert
from warpwatch.dashboard.store.outbox import claim_deliveries, mark_delivered, mark_failed
from warpwatch.dashboard.store.records import RegressionGroup


@click.command()
@click.option(
    "--to", "destinations", multiple=True, metavar="URL", envvar="WARPWATCH_ALERT_TO",
    help="A webhook (https://…) or an apprise address (slack://…, mailto://…); may be given several times.",
)  # fmt: skip
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), default=0.0, metavar="SHARE",
    help="Only changes of at least this size, 0.05 for 5 %; default: every regression the analysis found.",
)  # fmt: skip
@click.option(
    "--most-false", type=click.FloatRange(0, 1), default=LIMIT, show_default=True, metavar="SHARE",
    help="Only changes up to this false discovery rate among all series of their run.",
)  # fmt: skip
@click.option(
    "--recent-days", type=click.FloatRange(0), default=30, show_default=True,
    help="Only commits this much older than the newest: a first import of years is no news.",
)  # fmt: skip
@click.option("--dashboard", "dashboard_url", metavar="URL", envvar="WARPWATCH_URL", help="For links in the message.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent; send and record nothing.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def alert(
    destinations: tuple[str, ...], project: str | None, threshold: float, most_false: float,
    recent_days: float, dashboard_url: str | None, dry_run: bool, database: str | None,
) -> None:  # fmt: skip
    """Send new regressions, each once to each destination.

    A message is kept until it has arrived: what a destination did not take is sent at the next call that names it.
    Exit status: 0 all sent or nothing new, 1 something did not arrive.
    """
    if not destinations and not dry_run:
        raise click.UsageError("nowhere to send to: give --to URL, set WARPWATCH_ALERT_TO, or try --dry-run")
    for destination in destinations:
        try:
            check_destination(destination)
        except DeliveryError as error:
            raise click.UsageError(str(error)) from error
    store = open_store(database)
    name = choose_project(store, project).name
    groups = [
        group
        for found in new_regressions(store, name, recent_days=recent_days, most_false=most_false)
        if (group := _at_least(found, threshold)) is not None
    ]
    if dry_run:
        for group in groups:
            message = _message(group, dashboard_url)
            click.echo(f"{message.title}\n\n{message.text}\n")
        click.echo(f"{len(groups)} new")
        return
    for group in groups:
        payload = json.dumps(asdict(_message(group, dashboard_url)))
        open_alert(store, group, messages=dict.fromkeys(destinations, payload), now_ms=_now_ms())
    sent, failed = _empty_outbox(store, destinations)
    click.echo(f"{len(groups)} new, {sent} sent, {failed} not delivered")
    if failed:
        raise SystemExit(1)


def _at_least(group: RegressionGroup, threshold: float) -> RegressionGroup | None:
    large = tuple(one for one in group.regressions if abs(one.change.magnitude) >= threshold)
    return replace(group, regressions=large) if large else None


def _message(group: RegressionGroup, dashboard_url: str | None) -> Message:
    facts = [group.project, group.machine, group.commit.hash, *sorted(one.series.key for one in group.regressions)]
    return compose(group, hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32], dashboard_url)


def _empty_outbox(store: Store, destinations: tuple[str, ...]) -> tuple[int, int]:
    """Deliver what waits for these, this call's and what earlier ones could not. Returns how many arrived and not."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    sent = failed = 0
    for delivery in claim_deliveries(store, destinations=destinations, worker=worker, now_ms=_now_ms()):
        try:
            deliver(Message(**json.loads(delivery.payload)), delivery.destination)
        except DeliveryError as error:
            mark_failed(store, delivery.id, worker=worker, error=str(error))
            click.echo(f"not delivered, attempt {delivery.attempts}: {error}", err=True)
            failed += 1
        else:
            mark_delivered(store, delivery.id, worker=worker, now_ms=_now_ms())
            sent += 1
    return sent, failed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
