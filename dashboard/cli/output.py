"""Options that commands share, and their output: standard output or a file, and the exit status of failures."""

import contextlib
import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

FAILED = 70  # EX_SOFTWARE of sysexits.h; 1 and 2 are answers
INTERRUPTED = 128 + 2  # by SIGINT, as shells report it
PIPE_CLOSED = 128 + 13  # by SIGPIPE

# Storage errors, which users can fix; any other OSError is a bug and shows its traceback.
_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}


class FailedError(click.ClickException):
    """The command failed for an external reason, such as a full disk or a failing database."""

    exit_code = FAILED


def storage_error(error: BaseException) -> str | None:
    """One-line message of a disk or database error; None for any other."""
    if isinstance(error, OSError) and error.errno in _STORAGE:
        return f"cannot write or read {error.filename or 'a file'}: {error.strerror}"
    if "sqlalchemy" not in sys.modules:  # takes 0.1 s to import
        return None
    from sqlalchemy.exc import DatabaseError

    if isinstance(error, DatabaseError):
        message = str(error.orig).strip() or type(error.orig).__name__
        return f"the database failed: {message.splitlines()[0]}. Finished transactions are kept; try again"
    return None


def discard_stdout() -> None:
    """Redirect stdout to the null device: a failing flush at exit would change the exit status."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:  # a test's stdout is no file
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class OutputFile(click.Path):
    """Path of an output file, checked before the command starts, which may run for an hour."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path. Raises a click error if it cannot be written."""
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


def say(line: str) -> None:
    """Print a line about progress to standard error."""
    click.echo(line, err=True)


database_option = click.option(
    "--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE."
)
project_option = click.option("--project", metavar="NAME", help="Required if the store has several.")
output_option = click.option("--output", type=OutputFile(), help="Write to this file instead of printing.")
