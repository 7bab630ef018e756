"""The command on a series' page picks this series alone, with asv's own rule of matching."""

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest

from warpwatch.dashboard.analysis.next_measurement import asv_command, gate_command
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.series import Commit, Series

COMMIT = Commit(
    hash="a" * 40, date=datetime(2026, 1, 1, tzinfo=UTC), subject=None, author=None, position=0, unmeasured_before=None
)
WORKLOADS = ("fp16-b1", "fp16-b16", "fp16-b1.5 (odd)", "it's; rm -rf $HOME")


def _series(benchmark: str, *values: str) -> Series:
    return Series(
        key="0" * 16,
        project="p",
        benchmark=benchmark,
        parameters=tuple((f"p{i}", value) for i, value in enumerate(values)),
        metric=metric("latency", "seconds"),
        machine="m",
        environment="e",
        workload=None,
        implementation=None,
        is_baseline=False,
        listed=True,
    )


def _arguments(series: Series) -> tuple[str, str]:
    words = shlex.split(asv_command(series, COMMIT) or "")
    assert words[:4] == ["asv", "run", "--record-samples", "--bench"]
    pattern, commits = words[4:]
    return pattern, commits


@pytest.mark.parametrize("workload", WORKLOADS)
def test_of_all_combinations_asv_would_run_only_this_one(workload: str) -> None:
    pattern, commits = _arguments(_series("b.rope.Rope.track_latency", workload, "warpwatch"))
    # As asv's Benchmarks does: re.search over "name(repr, repr)".
    names = {
        f"{benchmark}({case!r}, {implementation!r})": (benchmark, case, implementation)
        for benchmark, case, implementation in product(
            ("b.rope.Rope.track_latency", "b.rope.Rope.track_latency_2", "ab.rope.Rope.track_latency"),
            WORKLOADS,
            ("warpwatch", "warpwatch2", "sdpa"),
        )
    }
    matching = [found for name, found in names.items() if re.search(pattern, name)]
    assert matching == [("b.rope.Rope.track_latency", workload, "warpwatch")]
    assert commits == f"{COMMIT.hash}^!"


def test_a_benchmark_without_parameters_is_its_name() -> None:
    pattern, _ = _arguments(_series("suite.time_it"))
    assert re.search(pattern, "suite.time_it")
    assert not re.search(pattern, "suite.time_it_twice")
    assert not re.search(pattern, "suiteXtime_it")


def test_what_another_tool_measured_has_no_command_of_asvs() -> None:
    series = replace(_series("test_rope.test_apply", "fp16"), is_from_asv=False)
    assert asv_command(series, COMMIT) is None
    assert gate_command(series, COMMIT, COMMIT) is None
