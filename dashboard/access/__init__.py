"""Who asks, and what they may do. Pages need `person`, `may`, `needs` and `csrf_token` alone."""

from warpwatch.dashboard.access.csrf import csrf_token
from warpwatch.dashboard.access.guard import needs, tokens_alone, without_login, working_token
from warpwatch.dashboard.access.requester import may, person
from warpwatch.dashboard.access.roles import Person, Role

__all__ = ["Person", "Role", "csrf_token", "may", "needs", "person", "tokens_alone", "without_login", "working_token"]
