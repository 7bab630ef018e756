"""One message to one destination: a JSON webhook for http(s) addresses, apprise for everything else it knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import apprise
import requests

_TIMEOUT_S = 10.0


class DeliveryError(Exception):
    """The destination did not take the message; the text says which one and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent. `key` is the same at every attempt, so that a receiver can drop a repetition."""

    key: str
    title: str
    text: str  # Markdown
    payload: Mapping[str, Any]  # for programs: the webhook's body


def check_destination(destination: str) -> None:
    """Refuse an address nobody can deliver to, before anything is queued for it. Raises DeliveryError."""
    if _is_webhook(destination):
        if not urlsplit(destination).hostname:
            raise DeliveryError(f"cannot send to {destination!r}: the address names no host")
        return
    if not apprise.Apprise().add(destination):
        scheme = destination.partition("://")[0]
        raise DeliveryError(
            f"cannot send to {scheme!r}: wanted a webhook (https://…) or an apprise address "
            "such as slack://…, mailto://… or ntfy://…"
        )


def deliver(message: Message, destination: str) -> None:
    """Send once, waiting at most ten seconds. Raises DeliveryError; then it may be tried again."""
    if _is_webhook(destination):
        _post(message, destination)
        return
    service = apprise.Apprise()
    if not service.add(destination):
        check_destination(destination)
    if not service.notify(title=message.title, body=message.text, body_format=apprise.NotifyFormat.MARKDOWN):
        raise DeliveryError(f"{destination.partition('://')[0]}:// did not take the message (apprise)")


def _is_webhook(destination: str) -> bool:
    return destination.startswith(("http://", "https://"))


def _post(message: Message, url: str) -> None:
    try:
        response = requests.post(
            url, json=dict(message.payload), headers={"Idempotency-Key": message.key}, timeout=_TIMEOUT_S
        )
    except requests.RequestException as error:
        raise DeliveryError(f"{_host(url)}: {type(error).__name__}") from error
    if not response.ok:
        raise DeliveryError(f"{_host(url)} answered {response.status_code} {response.reason}")


def _host(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
