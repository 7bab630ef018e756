"""JSON webhooks at http(s) addresses. The key of a message is its `Idempotency-Key`."""

from urllib.parse import urljoin, urlsplit

import requests

from ...retries import requested_wait_s
from ..alert_content import DeliveryError, Message, host_of

_TIMEOUT_S = 10.0


def is_webhook(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def check(address: str) -> None:
    """Raises DeliveryError for an address without a host."""
    try:
        parts = urlsplit(address)
        known = parts.hostname is not None and parts.port != 0
    except ValueError:  # its text contains parts of the address
        known = False
    if not known:
        scheme = address.partition("://")[0]
        raise DeliveryError(
            f"cannot send to {scheme}://…: the address names no host; expected such as https://HOST/PATH"
        )


def post(message: Message, address: str) -> None:
    """Sends once, with a timeout of ten seconds. Raises DeliveryError.

    Redirects are not followed: they may lead to a login page, whose status 200 is not a delivery, or to an internal
    host (SSRF).
    """
    headers = {"Idempotency-Key": message.key}
    try:
        with requests.post(
            address, json=dict(message.payload), headers=headers, timeout=_TIMEOUT_S, allow_redirects=False, stream=True
        ) as response:
            status, reason, moved_to = response.status_code, response.reason, response.headers.get("Location")
            wait_s = requested_wait_s(response.headers)
    except requests.RequestException as error:
        raise DeliveryError(f"{host_of(address)}: {type(error).__name__}") from error
    if 300 <= status < 400 and moved_to:
        raise DeliveryError(f"{host_of(address)} sends on to {host_of(urljoin(address, moved_to))}: give that address")
    if not 200 <= status < 300:
        raise DeliveryError(f"{host_of(address)} answered {status} {reason}", wait_s)
