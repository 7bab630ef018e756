"""Chat and whatever else apprise knows. These know no key: a sender killed in mid-delivery may repeat itself."""

import apprise

from warpwatch.ci.alerting.failing import DeliveryError
from warpwatch.ci.alerting.message import Message


def notify(message: Message, address: str) -> None:
    """Send once. Raises DeliveryError."""
    service = apprise.Apprise()
    if not service.add(address) or not service.notify(
        title=message.title, body=message.text, body_format=apprise.NotifyFormat.MARKDOWN
    ):
        raise DeliveryError(f"{address.partition('://')[0]}:// did not take the message (apprise)")
