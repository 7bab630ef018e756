"""The destinations of one program: those of the policy file by name, those of the command line by address.

Addresses and tokens are taken from the environment when a message goes out; the store knows destinations by name.
"""

from collections.abc import Callable, Mapping, Sequence

from warpwatch.ci.alerting.delivering import Delivered, check_address, deliver, deliver_to_github
from warpwatch.ci.alerting.failing import DeliveryError
from warpwatch.ci.alerting.message import Message
from warpwatch.ci.policy.alerts import AlertsTable, Destination


class Places:
    """Where messages may go. Raises DeliveryError for one that nothing can be sent to."""

    def __init__(self, policy: AlertsTable, given: Sequence[str], environment: Mapping[str, str]) -> None:
        self.given = tuple(dict.fromkeys(given))
        self._named = {each.name: each for each in policy.destination}
        self._environment = environment
        for address in self.given:
            check_address(address)
        for each in policy.destination:
            if each.url_env is not None:
                check_address(self._secret(each.url_env, each.name))
            else:
                self._secret(each.token_env, each.name)

    @property
    def names(self) -> tuple[str, ...]:
        """All destinations, as the outbox calls them."""
        return (*self.given, *self._named)

    def deliver(self, message: Message, destination: str, receipt: Callable[[], str | None]) -> Delivered:
        """Send once. Raises DeliveryError."""
        its = self._named.get(destination)
        if its is None:
            return deliver(message, destination)
        if its.url_env is not None:
            return deliver(message, self._secret(its.url_env, its.name))
        return self._as_issue(message, its, receipt)

    def _as_issue(self, message: Message, its: Destination, receipt: Callable[[], str | None]) -> Delivered:
        return deliver_to_github(message, its, self._secret(its.token_env, its.name), receipt)

    def _secret(self, variable: str, name: str) -> str:
        value = self._environment.get(variable)
        if not value:
            raise DeliveryError(f"destination {name!r}: the environment has no {variable}; set it, or take it out")
        return value
