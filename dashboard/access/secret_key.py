"""The key that signs sessions: given, or made once and kept beside the database; never one that others could know."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from warpwatch.dashboard.settings import Settings

_BYTES = 32
_TO_FIX = "set WARPWATCH_SECRET_KEY (python -c 'import secrets; print(secrets.token_hex(32))' makes one)"


def secret_key(settings: Settings, sqlite_file: Path | None) -> bytes:
    """The application's key. Raises ValueError where people log in and none can be kept, or others can read it.

    Without a login a key that lives as long as the process does: only the local user has a session.
    """
    if settings.access.secret_key is not None:
        return settings.access.secret_key.encode()
    try:
        if sqlite_file is not None:
            return _kept(sqlite_file.with_name(f"{sqlite_file.name}.secret-key"))
        problem = "it is kept beside a SQLite file, and there is none"
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
    if settings.access.login is not None:
        raise ValueError(f"there is no secret key to sign sessions with ({problem}); {_TO_FIX}")
    return secrets.token_bytes(_BYTES)


def _kept(path: Path) -> bytes:
    """The file's key; made by whichever process comes first."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_hex(_BYTES).encode())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # whole, or not at all
        finally:
            draft.unlink()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ValueError(f"others can read {path} (mode {mode:o}), and could pass for anybody: delete it, or "
                         "chmod 600 it if nobody did")  # fmt: skip
    key = path.read_bytes().strip()
    if len(key) < _BYTES:
        raise ValueError(f"{path} holds no key of {_BYTES} characters; delete it, and a new one is made")
    return key
