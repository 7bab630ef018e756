"""The login of the person who runs `warpwatch serve`: a link with a one-time token, as Jupyter prints one.

Nothing but the token tells that person from others who reach the server: not the address, which a proxy beside the
server shares, nor a header.
"""

import hashlib
import secrets
import threading

SESSION_DAYS = 30
_TOKEN_BYTES = 32


class LocalLogin:
    """Tokens that were printed and not used yet; only their hashes are kept."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()
        self._lock = threading.Lock()

    def new_token(self) -> str:
        """A token that logs in one browser, once."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            self._hashes.add(_hash(token))
        return token

    def redeem(self, token: str) -> bool:
        """Whether the token is one that was not used before; from now on it is used."""
        with self._lock:
            if _hash(token) not in self._hashes:
                return False
            self._hashes.remove(_hash(token))
            return True


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
