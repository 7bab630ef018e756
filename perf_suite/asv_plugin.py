"""asv's side of the suite, named in asv.conf.json: shares packages, passes --quick on, keeps the context files.

asv imports this in its own process and calls `setup`. Discovery also imports it inside benchmark environments,
where asv is missing, so asv is imported only in there.
"""

import functools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import shared_packages, spool
from .session import QUICK_VARIABLE

_SPOOLS = Path(".asv/context")


def setup() -> None:
    """Wrap asv's `run` and its saving of results."""
    from asv.commands.run import Run
    from asv.results import Results

    os.environ[shared_packages.VARIABLE] = os.pathsep.join(_site_packages())
    Run.run = classmethod(_with_spool(Run.run.__func__))
    Results.save = _with_context(Results.save)


def _with_spool(run: Any) -> Any:
    @functools.wraps(run)
    def wrapped(cls: type, *arguments: Any, **keywords: Any) -> Any:
        """asv's run, with a spool folder of its own for the processes it starts; gone afterwards."""
        _SPOOLS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_SPOOLS) as folder:
            os.environ[spool.FOLDER_VARIABLE] = str(Path(folder).resolve())
            os.environ[QUICK_VARIABLE] = "1" if keywords.get("quick") else "0"
            try:
                return run(cls, *arguments, **keywords)
            finally:
                del os.environ[spool.FOLDER_VARIABLE], os.environ[QUICK_VARIABLE]

    return wrapped


def _with_context(save: Any) -> Any:
    @functools.wraps(save)
    def wrapped(results: Any, result_dir: str) -> None:
        """The waiting context lines beside the file asv is about to write: nobody reads it without them."""
        folder = os.environ.get(spool.FOLDER_VARIABLE)
        if folder:
            saved = Path(result_dir) / results._filename
            saved.parent.mkdir(parents=True, exist_ok=True)
            spool.move(
                Path(folder),
                saved.with_suffix(".context.jsonl"),
                commit=results.commit_hash,
                environment=results.env_name,
            )
        save(results, result_dir)

    return wrapped


def _site_packages() -> list[str]:
    """Where asv's own interpreter keeps packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
