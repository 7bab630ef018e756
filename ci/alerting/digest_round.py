"""A digest on its way: composed, and put into the outbox once for each period and destination."""

from collections.abc import Sequence
from datetime import UTC, datetime

from warpwatch.ci.alerting.digest import Digest, Period, digest, due
from warpwatch.ci.alerting.digest_text import as_html, as_text, digest_parts, digest_title
from warpwatch.ci.alerting.message import Message, key_of, thread_of
from warpwatch.ci.alerting.rounds import Round, now_ms
from warpwatch.ci.alerting.routing import Matter, destinations
from warpwatch.dashboard.code_span import defused
from warpwatch.dashboard.store.outbox import queue_in_project, told_destinations


def compose_digest(told: Digest, dashboard_url: str | None) -> Message:
    """The message; of one project and period there is one thread a day."""
    parts = digest_parts(told, dashboard_url)
    thread = thread_of(told.project, "digest", told.period.value, told.until.isoformat())
    payload = {
        "schema": 2, "event": "digest", "action": "opened", "key": key_of(thread, 1), "thread": thread,
        "title": digest_title(told), "project": told.project, "period": told.period.value,
        "since": told.since.isoformat(), "until": told.until.isoformat(),
        "parts": [{"title": part.title, "rows": [{"text": row.text, "url": row.address} for row in part.rows]}
                  for part in parts],
    }  # fmt: skip
    return Message(
        key=key_of(thread, 1), thread=thread, title=defused(digest_title(told)), text=as_text(told, parts),
        html=as_html(told, parts), payload=payload, labels=("digest",),
    )  # fmt: skip


def digest_destinations(its: Round) -> tuple[str, ...]:
    """Who gets digests."""
    matter = Matter(kind="digest", machine=None, kernels=(), owners=())
    return destinations(matter, its.policy, its.places.given)


def queue_digest(its: Round, period: Period, until: datetime, to: Sequence[str]) -> Message:
    """Puts the digest of the period up to then into the outbox, for those who have not got it yet."""
    message = compose_digest(digest(its.store, its.project, period, until), its.policy.dashboard)
    queue_in_project(
        its.store, its.project, message.thread, 1, dict.fromkeys(to, message.as_json()), now_ms=now_ms()
    )  # fmt: skip
    return message


def queue_digest_if_due(its: Round) -> None:
    """The newest period's, as the policy has it, unless it went out before."""
    if its.policy.digest == "none":
        return
    period, at = Period(its.policy.digest), its.policy.digest_at
    until = due(period, datetime.now(UTC), at.hour, at.minute)
    to = digest_destinations(its)
    thread = thread_of(its.project, "digest", period.value, until.isoformat())
    if set(to) - told_destinations(its.store, [thread]).get(thread, frozenset()):
        queue_digest(its, period, until, to)
