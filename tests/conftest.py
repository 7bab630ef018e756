"""How every test runs, and what a machine without a GPU, a browser or a database leaves out."""

import os
import sys
from collections import Counter

import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from jinja2.bccache import Bucket, BytecodeCache
from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from tests.postgresql import database, postgresql_server  # noqa: F401  # here, for one server a process

# OpenMP's threads spin while they wait, which doubles the CPU time of a test and takes the cores from other workers.
# They still run: set before torch is loaded, for this process and those that it starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Compiled modules are kept, also where a container sets PYTHONDONTWRITEBYTECODE: else each worker rewrites the
# assertions of all tests again, and each process that a test starts compiles our modules again.
sys.dont_write_bytecode = False

# The same examples each time, so that a red run is a change of ours. No stopwatch, neither on an example nor on making
# one: machines are shared.
settings.register_profile("warpwatch", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warpwatch")


class _CompiledTemplates(BytecodeCache):
    """Templates by the hash of their source, so that a process compiles each once for all of its applications."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self._code.get((bucket.key, bucket.checksum)):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


Flask.jinja_options = {"bytecode_cache": _CompiledTemplates()}

# Statements compiled by SQLAlchemy, for all engines of a process: it keeps them by engine, of which each test opens its
# own. The key has the dialect, an object per engine; ours differ by class alone.
_COMPILED_STATEMENTS: LRUCache = LRUCache(2000)
Engine._compiled_cache = property(lambda _engine: _COMPILED_STATEMENTS, lambda _engine, _new: None)
DefaultDialect.__eq__ = lambda one, other: type(one) is type(other)
DefaultDialect.__hash__ = lambda one: hash(type(one))

# What tests say when they skip for want of a program, and how to get it.
_INSTALL = {
    "is on PATH (Debian: apt-get install chromium)": "apt-get install chromium",
    "no PostgreSQL server binaries": "apt-get install postgresql",
    "no nginx here": "apt-get install nginx",
    "no CUDA compiler here": "pip install -r kernels/building/cuda_from_pip.txt",
    "no nvcc on PATH": "pip install -r kernels/building/cuda_from_pip.txt",
    "built without CUDA": "make test WARPWATCH_CUDA_ARCHS=all",
    "not built for any of these": "make test WARPWATCH_CUDA_ARCHS=all",
}


# Fixtures that write files, fill a database or start a program. Tests without them run in `make check`; one that starts
# a program by itself carries the mark.
_OUTSIDE = frozenset({"tmp_path", "tmp_path_factory", "database", "postgresql_server", "browser"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what reaches outside the process; deselect what needs a GPU where there is none.

    Thousands of skips would hide those that matter.
    """
    for item in items:
        if not _OUTSIDE.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("outside")
    on_a_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_a_gpu or _has_gpu():
        return
    config.hook.pytest_deselected(items=on_a_gpu)
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def _has_gpu() -> bool:
    import torch  # what is marked has imported it; the dashboard's tests run without

    return torch.cuda.is_available()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line: how many tests were left out for want of which program."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr]
    missing = Counter(command for reason in reasons for says, command in _INSTALL.items() if says in reason)
    if missing:
        said = ", ".join(f"{count} (want: {command})" for command, count in missing.items())
        terminalreporter.write_line(f"Left out for want of programs: {said}")
