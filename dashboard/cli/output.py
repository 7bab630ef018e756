"""Output of a command: standard output or a file, and the exit status of failures."""

import contextlib
import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

# How the commands end when something outside them fails, and the exit status they end with.

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


class OutputFile(click.Path):
    """The path of a file to write, refused at once if its folder cannot take it: a command may measure for an hour
    before it writes.
    """

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path. Raises a click error that names the folder and what to do."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"the folder {path.parent} does not exist; create it or name another file", param, ctx)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            self.fail(f"{path} cannot be written: no permission", param, ctx)
        return path


def table_width(output: Path | None) -> int | None:
    """Columns of the terminal that a table is printed on; None for a file or a pipe, where no line is cut."""
    return shutil.get_terminal_size().columns if output is None and sys.stdout.isatty() else None


def write(text: str, output: Path | None) -> None:
    """Write the text to the file, or else to standard output.

    If the file cannot be written the text goes to standard output, so that it is not lost. Raises FailedError then.
    """
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        click.echo(text)
        raise FailedError(f"cannot write {output}: {error.strerror}. The result was printed instead") from error
