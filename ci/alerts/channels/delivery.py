"""One message to one destination, by whoever knows the way there."""

from collections.abc import Callable
from dataclasses import dataclass

import apprise

from ...policy.policy_model import Destination
from ..message import DeliveryError, Message
from . import chat, mail, webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What is kept of a delivery."""

    receipt: str | None = None  # what the receiver calls it
    remark: str | None = None  # what a person should know, such as an address that the mail server refused


def check_address(address: str) -> None:
    """Refuse an address nobody can deliver to, before anything is queued for it. Raises DeliveryError."""
    if webhook.is_webhook(address):
        webhook.check(address)
    elif not apprise.Apprise().add(address):
        scheme, rest = address.partition("://")[::2]
        raise DeliveryError(
            f"cannot send to {scheme if rest else '…'!r}: wanted a webhook (https://…) or an apprise address "
            "such as slack://…, mailto://… or ntfy://…"
        )


def deliver(message: Message, address: str) -> Delivered:
    """Send once to an address. Raises DeliveryError; then it may be tried again."""
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
    """An issue, or a step of one; `receipt` tells the number of the issue that an earlier message made, if any did."""
    from . import github_issue  # takes a second to load that other destinations need not wait

    return Delivered(receipt=github_issue.deliver(message, destination, token, receipt()))
