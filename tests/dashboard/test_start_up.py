"""What `warpwatch import` waits for before it begins: it runs after each measured commit."""

import subprocess
import sys

_TAKE_LONG = (
    "alembic", "flask", "json5", "multiprocessing", "pandas", "plotly", "sqlalchemy.orm",
    "warpwatch.dashboard.store.queries",
)  # fmt: skip


def test_an_import_loads_nothing_that_takes_long_and_that_it_may_not_need() -> None:
    code = "import sys, warpwatch.dashboard.import_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sqlalchemy" in loaded
    assert not set(_TAKE_LONG) & set(loaded)
