"""A JSON webhook: any http(s) address. The key of a message is its `Idempotency-Key`."""

from urllib.parse import urlsplit

import requests

from warpwatch.ci.alerting.failing import DeliveryError, host_of
from warpwatch.ci.alerting.message import Message

_TIMEOUT_S = 10.0


def is_webhook(address: str) -> bool:
    """Whether the address is one."""
    return address.startswith(("http://", "https://"))


def check(address: str) -> None:
    """Raises DeliveryError for one that leads nowhere."""
    if not urlsplit(address).hostname:
        raise DeliveryError(f"cannot send to {address!r}: the address names no host")


def post(message: Message, address: str) -> None:
    """Send once, waiting at most ten seconds for each answer. Raises DeliveryError."""
    try:
        response = requests.post(
            address, json=dict(message.payload), headers={"Idempotency-Key": message.key}, timeout=_TIMEOUT_S
        )
    except requests.RequestException as error:
        raise DeliveryError(f"{host_of(address)}: {type(error).__name__}") from error
    if not response.ok:
        raise DeliveryError(f"{host_of(address)} answered {response.status_code} {response.reason}")
