"""Login of the user who runs `warpwatch serve`: a link with a one-time token, like Jupyter's.

Only the token identifies that user: a proxy on the same machine shares the address, and clients choose headers.
"""

import hashlib
import secrets
import threading

SESSION_DAYS = 30
_TOKEN_BYTES = 32


class LocalLogin:
    """Unused tokens; only hashes are stored."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()
        self._lock = threading.Lock()

    def new_token(self) -> str:
        """A new one-time token."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            self._hashes.add(_hash(token))
        return token

    def redeem(self, token: str) -> bool:
        """Use up the token; False if it is unknown or used."""
        with self._lock:
            if _hash(token) not in self._hashes:
                return False
            self._hashes.remove(_hash(token))
            return True


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
