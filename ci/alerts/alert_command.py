"""`warpwatch alert`: send alerts for what is new on the main branch, or a digest, once per destination."""

import os
from pathlib import Path
from typing import Any

import click
from sqlalchemy.exc import OperationalError

from warpwatch.dashboard.cli.project_choice import choose_project
from warpwatch.dashboard.cli.store_access import gave_up, open_store, read_settings
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.outbox import revive, undelivered
from warpwatch.dashboard.store.policy import state_limits

from ..policy.committed_policy import limits_stated_by
from ..policy.policy_file import PolicyError, find_policy, read_usable_policy
from ..policy.policy_model import MOST_DAYS, AlertsTable, Policy
from .alert_round import Round, now_ms, round_words, unrouted_words
from .checks.runner_health import TrustMemory
from .daemon import run_daemon
from .destinations import Places
from .digest import Period
from .digest_command import print_digest, send_digest
from .message import DeliveryError, Message


@click.command()
@click.option(
    "--to",
    "given",
    multiple=True,
    metavar="URL",
    envvar="WARPWATCH_ALERT_TO",
    help="A webhook (https://…) or an apprise address (slack://…, mailto://…); may be given several times.",
)
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="warpwatch.toml with [alerts]; default: that of this folder, or of one above it in its repository.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Only changes of at least this size without the machine's part, 0.05 for 5 %.",
)
@click.option(
    "--most-false",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Only changes up to this false discovery rate among all series of their run.  [default: 0.05]",
)
@click.option(
    "--recent-days",
    type=click.FloatRange(0, MOST_DAYS),
    help="Only commits this much older than the newest: a first import of years is no news.  [default: 30]",
)
@click.option("--dashboard", metavar="URL", envvar="WARPWATCH_URL", help="For links in the message.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent; send and record nothing.")
@click.option(
    "--watch",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Analyse, look and deliver every so many seconds until SIGTERM; what failed waits for its next attempt.",
)
@click.option("--outbox", is_flag=True, help="List the messages that have not arrived, and do nothing else.")
@click.option("--revive", "revives", is_flag=True, help="Try messages again that were given up.")
@click.option(
    "--digest",
    "digest_period",
    is_flag=False,
    flag_value="policy",
    type=click.Choice(["policy", *(each.value for each in Period)]),
    help="Send the summary of the last whole day or week instead; default: as warpwatch.toml says, else daily.",
)
@click.option("--html", "as_html", is_flag=True, help="With --digest: print the HTML of the mail; send nothing.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def alert(
    given: tuple[str, ...],
    project: str | None,
    config: Path | None,
    dry_run: bool,
    watch: float | None,
    outbox: bool,
    revives: bool,
    digest_period: str | None,
    as_html: bool,
    database: str | None,
    **said: Any,
) -> None:
    """Send alerts for what is new on the main branch, once per destination, and for what became of earlier ones.

    Regressions, missing data, unhealthy runners, kernels that fail their check. Destinations come from --to and
    warpwatch.toml. A message is kept until it has arrived: what a destination did not take is sent at the next call
    that names it. With --digest: what a day or a week brought, once per destination and period. Exit status: 0 all
    sent or nothing new, 1 something did not arrive.
    """
    if digest_period is None and as_html:
        raise click.UsageError("--html is of --digest")
    if digest_period is not None and (outbox or revives or watch is not None):
        raise click.UsageError("--digest goes with none of --outbox, --revive and --watch")
    whole = _read_whole_policy(config, said)
    policy = whole.alerts
    store = open_store(database)
    name = choose_project(store, project).name
    if outbox:
        click.echo("\n".join(_outbox_lines(store, name)) or "every message has arrived")
        return
    dry_run = dry_run or as_html
    if not given and not policy.destination and not dry_run:
        raise click.UsageError(
            "nowhere to send to: give --to URL, set WARPWATCH_ALERT_TO, name an [[alerts.destination]] in "
            "warpwatch.toml, or try --dry-run"
        )
    its = Round(
        store=store,
        project=name,
        policy=policy,
        places=_open_places(policy, given, dry_run=dry_run),
        memory=TrustMemory(read_settings().threshold),
        rules=whole.rule,
    )
    if digest_period is not None:
        period = _period(digest_period, policy)
        if dry_run:
            print_digest(its, period, as_html=as_html)
        else:
            send_digest(its, period)
        return
    if dry_run:
        scanned = its.scan(dry_run=True)
        for message in scanned.messages:
            click.echo(f"{message.title}\n\n{message.text}\n")
        click.echo(f"{len(scanned.messages)} new")
        return
    _keep_limits(store, name, config)
    if watch is not None:
        run_daemon(its, seconds=watch)
        return
    try:
        if revives:
            click.echo(f"{revive(store, name, now_ms=now_ms())} tried again")
        scanned = its.scan()
        sent = its.send(only_due=False)
        unnamed = its.unnamed_words()
    except OperationalError as error:
        raise gave_up(error, to_go_on="call it again: what was not sent is sent then") from error
    for line in (*sent.said, *unrouted_words(scanned.unrouted), *unnamed):
        click.echo(line, err=True)
    click.echo(round_words(scanned, sent))
    if sent.failed or scanned.unrouted:
        raise SystemExit(1)


def _period(asked: str, policy: AlertsTable) -> Period:
    if asked != "policy":
        return Period(asked)
    return Period(policy.digest) if policy.digest != "none" else Period.DAILY


def _read_whole_policy(config: Path | None, said: dict[str, Any]) -> Policy:
    """The policy, with what the command line says instead of its `[alerts]`.

    Of a file with a fault the tables without one count, and the defaults for the rest: alerts go on, and it is said.
    """
    path = config or find_policy(Path.cwd())
    policy, fault = read_usable_policy(path) if path is not None else (Policy(), None)
    if fault is not None:
        click.echo(f"warning: {fault}\nThe tables named here are left out, and the defaults count for them.", err=True)
    alerts = policy.alerts.model_copy(update={key: value for key, value in said.items() if value is not None})
    return policy.model_copy(update={"alerts": alerts})


def _keep_limits(store: Store, project: str, config: Path | None) -> None:
    """Has pages judge by the file's limits, as its newest commit has them. What is in the way is said, and no alert
    waits for it."""
    path = config or find_policy(Path.cwd())
    if path is None:
        return
    try:
        state_limits(store, project, limits_stated_by(path), now_ms=now_ms())
    except (PolicyError, OSError, OperationalError) as error:
        click.echo(f"warning: pages are not judged by {path}: {error}", err=True)


def _open_places(policy: AlertsTable, given: tuple[str, ...], *, dry_run: bool = False) -> Places:
    """Where messages may go. Raises a click error for a place that nothing can be sent to."""
    try:
        return Places(AlertsTable() if dry_run else policy, given, os.environ)
    except DeliveryError as error:
        raise click.UsageError(str(error)) from error


def _outbox_lines(store: Store, project: str) -> list[str]:
    """A line for each message that has not arrived."""
    lines = []
    for each in undelivered(store, project):
        state = f"given up on {each.given_up:%Y-%m-%d %H:%M}" if each.given_up else "waits"
        if each.next_attempt and not each.given_up:
            state += f" for {each.next_attempt:%Y-%m-%d %H:%M:%S} UTC"
        title = Message.from_json(each.payload).title
        error = f": {each.error}" if each.error else ""
        lines.append(f"{each.destination}: {title}: {state}, {each.attempts} attempts{error}")
    return lines
