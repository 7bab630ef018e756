"""Authentication and authorization. Pages use `person`, `has_role`, `require_role` and `csrf_token`."""

from .csrf import csrf_token
from .identity import Person, Role, has_role, person
from .permissions import public, require_role, require_token, token_only
