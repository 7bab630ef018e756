"""What `warpwatch import` waits for before it begins: it runs after each measured commit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.asv_results import AsvResults

pytestmark = pytest.mark.outside

_TAKE_LONG = (
    "alembic",
    "flask",
    "json5",
    "multiprocessing",
    "pandas",
    "plotly",
    "sqlalchemy.orm",
    "warpwatch.dashboard.store.queries",
)


def test_an_import_loads_nothing_that_takes_long_and_that_it_may_not_need() -> None:
    code = "import sys, warpwatch.dashboard.cli.import_; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sqlalchemy" in loaded
    assert not set(_TAKE_LONG) & set(loaded)


def test_an_import_and_its_analysis_load_no_part_of_numpy_that_takes_long(
    timed_history: Callable[..., AsvResults], tmp_path: Path
) -> None:
    asv = timed_history([1e-3 * (1.2 if number >= 30 else 1) * (1 + number * 7 % 5 / 1000) for number in range(60)])
    code = (
        "import sys; from warpwatch.dashboard.cli.import_ import import_;"
        f" import_.main([{str(asv.folder)!r}, '--database', {str(tmp_path / 'w.db')!r}], standalone_mode=False);"
        " print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "1 series analysed" in done.stdout
    assert not {"numpy.fft", "numpy.ma", "numpy.random"} & set(done.stdout.split())


def test_a_server_without_a_login_loads_nothing_that_logging_in_or_a_migration_needs() -> None:
    code = "import sys, warpwatch.dashboard.cli.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "flask" in loaded
    assert not {"alembic", "authlib", "cryptography", "requests"} & set(loaded)
