"""Alert channels, one file each; `deliver` chooses one by the destination's address."""

from collections.abc import Callable
from dataclasses import dataclass

import apprise

from ...policy.policy_model import Destination
from ..alert_content import DeliveryError, Message
from . import chat, github_issue, mail, webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The result of a delivery."""

    receipt: str | None = None  # the receiver's id of the message
    remark: str | None = None  # for the log, such as an address that the mail server refused


def check_address(address: str) -> None:
    """Raises DeliveryError for an address that no channel handles."""
    if webhook.is_webhook(address):
        webhook.check(address)
    elif not apprise.Apprise().add(address):
        scheme, rest = address.partition("://")[::2]
        raise DeliveryError(
            f"cannot send to {scheme if rest else '…'!r}: expected a webhook (https://…) or an apprise address "
            "such as slack://…, mailto://… or ntfy://…"
        )


def deliver(message: Message, address: str) -> Delivered:
    """Sends once to an address. Raises DeliveryError."""
    if webhook.is_webhook(address):
        webhook.post(message, address)
        return Delivered()
    if (account := mail.account_of(address)) is not None:
        return Delivered(remark=mail.send(message, account))
    chat.notify(message, address)
    return Delivered()


def deliver_to_github(
    message: Message, destination: Destination, token: str, receipt: Callable[[], str | None]
) -> Delivered:
    """Opens or updates an issue; `receipt` returns the number of the thread's issue, if there is one."""

    return Delivered(receipt=github_issue.deliver(message, destination, token, receipt()))
