"""How the commands end when something outside them fails, and the exit status they end with."""

import contextlib
import errno
import os
import sys
from pathlib import Path

import click

FAILED = 70  # EX_SOFTWARE of sysexits.h; 1 and 2 are answers
INTERRUPTED = 128 + 2  # by SIGINT, as shells report it
PIPE_CLOSED = 128 + 13  # by SIGPIPE

# Errors of the storage, which the user can mend; any other OSError is a defect and shows its traceback.
_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}


class FailedError(click.ClickException):
    """The command could not finish, through no fault of its arguments: the disk is full, the database went away."""

    exit_code = FAILED


def storage_error(error: BaseException) -> str | None:
    """What a failed disk or database says, in one line; None for any other error."""
    if isinstance(error, OSError) and error.errno in _STORAGE:
        return f"cannot write or read {error.filename or 'a file'}: {error.strerror}"
    if "sqlalchemy" not in sys.modules:  # takes 0.1 s to import
        return None
    from sqlalchemy.exc import DatabaseError

    if isinstance(error, DatabaseError):
        said = str(error.orig).strip() or type(error.orig).__name__
        return f"the database failed: {said.splitlines()[0]}. Finished transactions are kept; try again"
    return None


def discard_stdout() -> None:
    """Point standard output at nothing: Python flushes it as it ends, and a failure there changes the exit status."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:  # a test's stdout is no file
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
