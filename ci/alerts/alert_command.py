"""`warpwatch alert`: sends alerts for the main branch, or a digest, once per destination."""

import logging
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import click
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.output import database_option, project_option
from warpwatch.dashboard.cli.store_access import choose_project, database_failed, open_store, read_settings
from warpwatch.dashboard.model.error_location import located
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import revive, undelivered
from warpwatch.dashboard.store.policy import state_limits

from ..policy.committed_policy import limits_stated_by
from ..policy.policy_file import PolicyError, find_policy, read_usable_policy
from ..policy.policy_model import AlertsTable, Policy
from .alert_content import DeliveryError, Message
from .alert_round import Round, now_ms, round_line, unrouted_lines
from .digest import Period, compose_digest, digest, digest_recipients, due, queue_digest, queue_digest_if_due
from .outbox_sender import DeliveryReport, Destinations


@click.command()
@click.option(
    "--to",
    "given",
    multiple=True,
    metavar="URL",
    envvar="WARPWATCH_ALERT_TO",
    help="A webhook (https://…) or an apprise address (slack://…, mailto://…); repeatable.",
)
@project_option
@click.option(
    "--config",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="warpwatch.toml with [alerts]; default: that of this folder, or of one above it in its repository.",
)
@click.option("--dashboard", metavar="URL", envvar="WARPWATCH_URL", help="The dashboard's address, for links.")
@click.option("--dry-run", is_flag=True, help="Print the messages; send and record nothing.")
@click.option(
    "--watch",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Analyse, scan and deliver at this interval until SIGTERM.",
)
@click.option("--outbox", is_flag=True, help="List the undelivered messages and exit.")
@click.option("--revive", "revives", is_flag=True, help="Retry abandoned messages.")
@click.option(
    "--digest",
    "digest_period",
    is_flag=False,
    flag_value="policy",
    type=click.Choice(["policy", *(each.value for each in Period)]),
    help="Send the digest of the last whole day or week; default: as in warpwatch.toml, else daily.",
)
@database_option
def alert(
    given: tuple[str, ...],
    project: str | None,
    config: Path | None,
    dry_run: bool,
    watch: float | None,
    outbox: bool,
    revives: bool,
    digest_period: str | None,
    dashboard: str | None,
    database: str | None,
) -> None:
    """Send alerts for regressions on the main branch, once per destination, and their updates until they are resolved.

    Also for missing data, unhealthy runners and kernels without a valid result. Destinations come from --to and
    warpwatch.toml. A message that a destination did not accept is sent by the next call that names it. With --digest:
    a summary of a day or a week, once per destination and period. Exit status: 0 all sent or nothing new, 1 a message
    was not delivered.
    """
    if digest_period is not None and (outbox or revives or watch is not None):
        raise click.UsageError("--digest goes with none of --outbox, --revive and --watch")
    policy_file = _read_policy(config, dashboard)
    policy = policy_file.alerts
    store = open_store(database)
    name = choose_project(store, project).name
    if outbox:
        click.echo("\n".join(_outbox_lines(store, name)) or "every message is delivered")
        return
    if not given and not policy.destination and not dry_run:
        raise click.UsageError(
            "nowhere to send to: give --to URL, set WARPWATCH_ALERT_TO, name an [[alerts.destination]] in "
            "warpwatch.toml, or try --dry-run"
        )
    alert_round = Round(
        store=store,
        project=name,
        policy=policy,
        places=_open_destinations(policy, given, dry_run=dry_run),
        threshold=read_settings().threshold,
        rules=policy_file.rule,
    )
    if digest_period is not None:
        period = _period(digest_period, policy)
        if dry_run:
            _print_digest(alert_round, period)
        else:
            _send_digest(alert_round, period)
        return
    if dry_run:
        scanned = alert_round.scan(dry_run=True)
        for message in scanned.messages:
            click.echo(f"{message.title}\n\n{message.text}\n")
        click.echo(f"{len(scanned.messages)} new")
        return
    _store_thresholds(store, name, config)
    if watch is not None:
        run_daemon(alert_round, seconds=watch)
        return
    try:
        if revives:
            click.echo(f"{revive(store, name, now_ms=now_ms())} tried again")
        scanned = alert_round.scan()
        sent = alert_round.send(only_due=False)
        unnamed = alert_round.unnamed_lines()
    except OperationalError as error:
        raise database_failed(error, to_go_on="call it again: it sends the rest") from error
    for line in (*sent.lines, *unrouted_lines(scanned.unrouted), *unnamed):
        click.echo(line, err=True)
    click.echo(round_line(scanned, sent))
    if sent.failed or scanned.unrouted:
        raise SystemExit(1)


def _period(choice: str, policy: AlertsTable) -> Period:
    if choice != "policy":
        return Period(choice)
    return Period(policy.digest) if policy.digest != "none" else Period.DAILY


def _read_policy(config: Path | None, dashboard: str | None) -> Policy:
    """The policy, with the dashboard's address of the command line if there is one.

    Invalid tables of the file are replaced by the defaults, with a warning, so that alerts continue.
    """
    path = config or find_policy(Path.cwd())
    policy, fault = read_usable_policy(path) if path is not None else (Policy(), None)
    if fault is not None:
        click.echo(f"warning: {fault}\nThe defaults are used for these tables.", err=True)
    if dashboard is None:
        return policy
    return policy.model_copy(update={"alerts": policy.alerts.model_copy(update={"dashboard": dashboard})})


def _store_thresholds(store: Store, project: str, config: Path | None) -> None:
    """Stores the file's thresholds, as of its newest commit, for the pages. An error is a warning."""
    path = config or find_policy(Path.cwd())
    if path is None:
        return
    try:
        state_limits(store, project, limits_stated_by(path), now_ms=now_ms())
    except (PolicyError, OSError, OperationalError) as error:
        click.echo(f"warning: the thresholds of {path} are not stored: {error}", err=True)


def _open_destinations(policy: AlertsTable, given: tuple[str, ...], *, dry_run: bool = False) -> Destinations:
    """The destinations. Raises a click error for an invalid one."""
    try:
        return Destinations(AlertsTable() if dry_run else policy, given, os.environ)
    except DeliveryError as error:
        raise click.UsageError(str(error)) from error


def _outbox_lines(store: Store, project: str) -> list[str]:
    """A line for each undelivered message."""
    lines = []
    for each in undelivered(store, project):
        state = f"given up on {each.given_up:%Y-%m-%d %H:%M}" if each.given_up else "waits"
        if each.next_attempt and not each.given_up:
            state += f" for {each.next_attempt:%Y-%m-%d %H:%M:%S} UTC"
        title = Message.from_json(each.payload).title
        error = f": {each.error}" if each.error else ""
        lines.append(f"{each.destination}: {title}: {state}, {each.attempts} attempts{error}")
    return lines


def _print_digest(alert_round: Round, period: Period) -> None:
    message = compose_digest(
        digest(alert_round.store, alert_round.project, period, datetime.now(UTC)), alert_round.policy.dashboard
    )
    click.echo(f"{message.title}\n\n{message.text}")


def _send_digest(alert_round: Round, period: Period) -> None:
    """Send the digest of the last period to each destination that did not get it. Exits with 1 if one failed."""
    at = alert_round.policy.digest_at
    destinations = digest_recipients(alert_round)
    if not destinations:
        raise click.UsageError("nowhere to send to: give --to URL, or a route in warpwatch.toml, or try --dry-run")
    queue_digest(alert_round, period, due(period, datetime.now(UTC), at.hour, at.minute), destinations)
    sent = alert_round.send(only_due=False)
    for line in sent.lines:
        click.echo(line, err=True)
    click.echo(f"{sent.sent} sent, {sent.failed} not delivered")
    if sent.failed:
        raise SystemExit(1)


_log = logging.getLogger(__name__)
_BETWEEN_DELIVERIES_S = 5.0


def run_daemon(alert_round: Round, *, seconds: float) -> None:
    """Scans at the interval and delivers due messages in between. Returns after SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    for noisy in ("apprise", "httpx", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    _log.info("watching %s every %g s", alert_round.project, seconds)
    next_scan = time.monotonic()
    unnamed: list[str] = []
    while not ended.is_set():
        is_time = time.monotonic() >= next_scan
        try:
            _round(alert_round, ended, scan=is_time)
            if is_time:
                unnamed = _log_new(alert_round.unnamed_lines(), unnamed)
        except SQLAlchemyError as error:
            _log.error("the database is unavailable and is tried again: %s", str(error.args[0]).strip().splitlines()[0])
        except Exception as error:  # a bug must not end the daemon
            _log.exception("a round failed and is tried again (%s). Please report this", located(error))
        if is_time:
            next_scan = time.monotonic() + seconds
        ended.wait(max(min(_BETWEEN_DELIVERIES_S, next_scan - time.monotonic()), 0.05))
    alert_round.store.close()
    _log.info("ended")


def _round(alert_round: Round, ended: threading.Event, *, scan: bool) -> None:
    if scan:
        analyse(alert_round.store, only=alert_round.project)
        found = alert_round.scan()
        queue_digest_if_due(alert_round)
        for line in unrouted_lines(found.unrouted):
            _log.warning(line)
        sent = alert_round.send(only_due=True, is_stopped=ended.is_set)
        if found.messages or sent.sent or sent.failed:
            _log.info(round_line(found, sent))
    else:
        sent = alert_round.send(only_due=True, is_stopped=ended.is_set)
    _say(sent)


def _log_new(lines: list[str], before: list[str]) -> list[str]:
    """Logs the lines that are not in `before`."""
    for line in lines:
        if line not in before:
            _log.warning(line)
    return lines


def _say(sent: DeliveryReport) -> None:
    for line in sent.lines:
        _log.warning(line)
