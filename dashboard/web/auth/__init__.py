"""Who asks, and what they may do. Pages need `person`, `may`, `needs` and `csrf_token` alone."""

from .csrf import csrf_token
from .identity import Person, Role, may, person
from .permissions import needs, tokens_alone, without_login, working_token

__all__ = ["Person", "Role", "csrf_token", "may", "needs", "person", "tokens_alone", "without_login", "working_token"]
