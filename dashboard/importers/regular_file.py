"""Files of folders that somebody else made: a pipe would block its reader for ever, a device never end."""

import os
import stat
from pathlib import Path


class UnreadableFileError(OSError):
    """No regular file, or one larger than is read; the message says which."""


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file, or of a link to one. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that opening a pipe does not wait for a writer
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(f"{path.name} is no regular file, but a pipe, a device or a folder")
        if status.st_size > most_bytes:
            size, most = status.st_size / 1e6, most_bytes / 1e6
            raise UnreadableFileError(f"{path.name} has {size:.0f} MB; at most {most:.0f} MB of one file are read")
        return file.read(most_bytes)
