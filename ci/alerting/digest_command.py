"""`warpwatch alert --digest`: print the digest of a day or a week, or send it once to each destination."""

from datetime import UTC, datetime

import click

from warpwatch.ci.alerting.digest import Period, digest, due
from warpwatch.ci.alerting.digest_round import compose_digest, digest_destinations, queue_digest
from warpwatch.ci.alerting.rounds import Round


def print_digest(its: Round, period: Period, *, as_html: bool) -> None:
    """Print the digest of the period that is under way."""
    message = compose_digest(digest(its.store, its.project, period, datetime.now(UTC)), its.policy.dashboard)
    click.echo(message.html if as_html else f"{message.title}\n\n{message.text}")


def send_digest(its: Round, period: Period) -> None:
    """Send the digest of the last whole period to each destination that did not get it. Ends with 1 if one failed."""
    at = its.policy.digest_at
    destinations = digest_destinations(its)
    if not destinations:
        raise click.UsageError("nowhere to send to: give --to URL, or a route in warpwatch.toml, or try --dry-run")
    queue_digest(its, period, due(period, datetime.now(UTC), at.hour, at.minute), destinations)
    sent = its.send(only_due=False)
    for line in sent.said:
        click.echo(line, err=True)
    click.echo(f"{sent.sent} sent, {sent.failed} not delivered")
    if sent.failed:
        raise SystemExit(1)
