"""Chat and other services of apprise. They have no idempotency key: a killed sender may repeat a message."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apprise
import requests

from warpwatch.dashboard.text.markdown import without_links_in_spans

from ...retries import requested_wait_s
from ..alert_content import DeliveryError, Message


def notify(message: Message, address: str) -> None:
    """Sends once. Raises DeliveryError."""
    service = apprise.Apprise()
    with _answers() as answers:
        if service.add(address) and service.notify(
            title=message.title, body=without_links_in_spans(message.text), body_format=apprise.NotifyFormat.MARKDOWN
        ):
            return
    scheme = address.partition("://")[0]
    refused = next((each for each in reversed(answers) if not each.ok), None)
    if refused is None:
        raise DeliveryError(f"{scheme}:// did not take the message (apprise)")
    raise DeliveryError(
        f"{scheme}:// answered {refused.status_code} {refused.reason} (apprise)", requested_wait_s(refused.headers)
    )


@contextmanager
def _answers() -> Iterator[list[requests.Response]]:
    """HTTP answers of services in the block, since apprise returns neither status nor headers of requests."""
    answers: list[requests.Response] = []
    send = requests.Session.send

    def noting(*words: Any, **settings: Any) -> requests.Response:
        answers.append(send(*words, **settings))
        return answers[-1]

    requests.Session.send = noting  # type: ignore[method-assign]
    try:
        yield answers
    finally:
        requests.Session.send = send  # type: ignore[method-assign]
