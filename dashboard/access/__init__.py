"""Who asks, and what they may do: the one entry for pages is `person`, `may`, `needs` and `csrf_token`."""

from warpwatch.dashboard.access.csrf import csrf_token
from warpwatch.dashboard.access.guard import needs, tokens_alone, without_login
from warpwatch.dashboard.access.requester import may, person
from warpwatch.dashboard.access.roles import Person, Role

__all__ = ["Person", "Role", "csrf_token", "may", "needs", "person", "tokens_alone", "without_login"]
