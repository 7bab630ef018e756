"""Where a command writes its result: standard output, or the file of `--output`."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from warpwatch.dashboard.exit_status import FailedError


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
