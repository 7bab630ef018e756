"""`warpwatch digest`: what a day or a week brought, printed, or sent once to each destination."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from warpwatch.ci.alerting.command import (
    config_option,
    dashboard_option,
    database_option,
    destination_option,
    open_places,
    project_option,
    read_whole_policy,
)
from warpwatch.ci.alerting.digest import Period, digest, due
from warpwatch.ci.alerting.digest_round import compose_digest, digest_destinations, queue_digest
from warpwatch.ci.alerting.rounds import Round
from warpwatch.ci.alerting.trusting import TrustMemory
from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.opening import open_store


@click.command("digest")
@click.option("--period", type=click.Choice([each.value for each in Period]), help="Default: the policy's, else daily.")
@destination_option
@project_option
@config_option
@dashboard_option
@click.option("--print", "prints", is_flag=True, help="Print it, up to now; send nothing.")
@click.option("--html", "as_html", is_flag=True, help="Print the HTML of the mail.")
@database_option
def digest_command(
    period: str | None, given: tuple[str, ...], project: str | None, config: Path | None, prints: bool, as_html: bool,
    database: str | None, **said: Any,
) -> None:  # fmt: skip
    """Tell what the last whole day or week brought: open, new, resolved, the worst, and the runners.

    Each period goes out once to each destination, however often this is called. Exit status: 0 sent or sent before,
    1 something did not arrive.
    """
    policy = read_whole_policy(config, said).alerts
    store = open_store(database)
    name = choose_project(store, project).name
    which = Period(period or (policy.digest if policy.digest != "none" else Period.DAILY))
    if prints or as_html:
        message = compose_digest(digest(store, name, which, datetime.now(UTC)), policy.dashboard)
        click.echo(message.html if as_html else f"{message.title}\n\n{message.text}")
        return
    its = Round(
        store=store, project=name, policy=policy, places=open_places(policy, given), memory=TrustMemory()
    )  # fmt: skip
    to = digest_destinations(its)
    if not to:
        raise click.UsageError("nowhere to send to: give --to URL, or a route in warpwatch.toml, or try --print")
    queue_digest(its, which, due(which, datetime.now(UTC), policy.digest_at.hour, policy.digest_at.minute), to)
    sent = its.send(only_due=False)
    for line in sent.said:
        click.echo(line, err=True)
    click.echo(f"{sent.sent} sent, {sent.failed} not delivered")
    if sent.failed:
        raise SystemExit(1)
