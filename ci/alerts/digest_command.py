"""`warpwatch alert --digest`: print the digest of a day or a week, or send it once to each destination."""

from datetime import UTC, datetime

import click

from .alert_round import Round
from .digest import Period, digest, due
from .digest_messages import compose_digest, digest_recipients, queue_digest


def print_digest(alert_round: Round, period: Period, *, as_html: bool) -> None:
    """Print the digest of the current period."""
    message = compose_digest(
        digest(alert_round.store, alert_round.project, period, datetime.now(UTC)), alert_round.policy.dashboard
    )
    click.echo(message.html if as_html else f"{message.title}\n\n{message.text}")


def send_digest(alert_round: Round, period: Period) -> None:
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
