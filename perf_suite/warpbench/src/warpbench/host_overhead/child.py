"""The process that runs dispatch.py: `python -m warpbench.host_overhead.child`, its Order on standard input.

Into the journal it writes a run record, then a line as each visit starts and ends, so that its parent knows what it did
when it died or fell silent. The report is pytest-benchmark's own JSON.
"""

import gc
import importlib.metadata
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import torch

from .. import context, run_record
from ..gate import WrongResultError
from ..protocol import Job, jobs_from_json
from ..records import Failure, RunRecord, to_line
from .session import Order, case

_FILE = Path(__file__).with_name("dispatch.py")


def main(order: Order) -> int:
    """Measure; the exit status is pytest's."""
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # nothing but pytest-benchmark has a say here
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):  # of another pytest, which may have started us
        os.environ.pop(name, None)
    device = context.device()
    arguments = ["-c", os.devnull, f"--rootdir={_FILE.parents[2]}", "--import-mode=importlib", "--noconftest", "-q"]
    # What a dying process says is its reason: neither caught by pytest nor buried under a list of its modules.
    arguments += ["--capture=no", "-p", "no:faulthandler"]
    arguments += ["-p", "no:cacheprovider", "-p", "pytest_benchmark.plugin", "--benchmark-disable-gc"]
    arguments += [f"--benchmark-json={order.report}"]
    if device == "cpu":  # a slice given to somebody else is not the call's; on a GPU a wait for it would be
        arguments += ["--benchmark-timer=time.process_time"]
    if order.quick:
        arguments += ["--visits=1", "--rounds=5"]
    torch.set_num_threads(1)
    jobs = [job for job in jobs_from_json(order.jobs) if job.workload.device == device]
    with os.fdopen(order.journal, "w") as file:
        print(to_line(_run_record(order.run, device)), file=file, flush=True)
        gc.freeze()  # what is imported by now is not looked through again between rounds
        return int(pytest.main([*arguments, str(_FILE)], plugins=[_Journal(file, jobs)]))


class _Journal:
    """A pytest plugin that reports how far the run has come, and hands the jobs to dispatch.py."""

    def __init__(self, file: TextIO, jobs: Sequence[Job]) -> None:
        self._file = file
        self._jobs = {case(job.workload.operator, job.implementation): job for job in jobs}
        self._wrong: set[str] = set()  # tests that ended in a wrong result

    def pytest_addoption(self, parser: Any) -> None:
        for option in ("--visits", "--rounds"):
            parser.addoption(option, type=int)

    def pytest_configure(self, config: Any) -> None:
        config.host_overhead_jobs = self._jobs

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._say(started=_case(nodeid))

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Makes none (pytest does), but sees the exception itself."""
        if call.excinfo is not None and call.excinfo.errisinstance(WrongResultError):
            self._wrong.add(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed":
            failure = Failure.WRONG_RESULT if report.nodeid in self._wrong else Failure.ERROR
            self._say(problem=report.outcome, case=_case(report.nodeid), reason=_reason(report), failure=failure.value)
        if report.when == "teardown":
            self._say(ended=_case(report.nodeid))

    def pytest_benchmark_generate_machine_info(self) -> dict[str, str]:
        """Nothing: the run record has more, and pytest-benchmark takes a second to find it out."""
        return {}

    def pytest_benchmark_generate_commit_info(self) -> dict[str, str]:
        """Nothing: asv knows which commit is measured."""
        return {}

    def _say(self, **line: str) -> None:
        print(json.dumps(line), file=self._file, flush=True)


def _run_record(run: str, device: str) -> RunRecord:
    record = run_record.describe(run, device, context.GpuMonitor() if device == "cuda" else None)
    versions = {name: importlib.metadata.version(name) for name in ("pytest", "pytest-benchmark")}
    return replace(record, software={**record.software, **versions})


def _case(nodeid: str) -> str:
    """ "rope-eager" of "...::test_dispatch[rope-eager-3]"."""
    return nodeid.partition("[")[2].rpartition("-")[0]


def _reason(report: Any) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: path, line, "Skipped: why"
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)


if __name__ == "__main__":
    sys.exit(main(Order(**json.load(sys.stdin))))
