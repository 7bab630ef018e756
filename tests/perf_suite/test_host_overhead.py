"""Host overhead of commits whose kernels misbehave, with real pytest-benchmark processes."""

import itertools
import statistics
import sys
from pathlib import Path

import pytest

from perf_suite.benchmarks.host_overhead import HostOverhead
from perf_suite.catalogue import BENCHMARKS
from warpbench import asv_values
from warpbench.host_overhead.session import Limits, measure_host_overhead, smallest
from warpbench.jobs import QUICK_VARIABLE, SELECTION_VARIABLE
from warpbench.records import Failure, RunRecord, Status, WorkloadRecord, from_line
from warpbench.spool import FOLDER_VARIABLE

pytest.importorskip("torch")

SUITE = Path(__file__).resolve().parents[2] / "perf_suite"
# A whole model is no smallest call: importing transformers alone takes longer than measuring all operators.
WITHOUT = {"control", "language_model"}
KINDS = {operator: kind for operator, kind in BENCHMARKS.items() if kind.smallest is not None}
ROPE_IS_RIGHT = """
from warpbench.lazy import torch
def rope(x, cos, sin, *, interleaved=False):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
"""
ABORTS_LIES_AND_HANGS = """
import os, time
from warpbench.lazy import torch
def flash_attention(q, k, v, *, causal=False):
    print("about to misbehave", flush=True)
    os.abort()
def int4_linear(x, packed, scales, *, group_size=128):
    return torch.zeros(x.shape[0], packed.shape[0], dtype=x.dtype, device=x.device)
def rope(x, cos, sin, *, interleaved=False):
    time.sleep(1000)
"""


def test_a_call_of_each_implementation_is_sampled_and_recorded(install, tmp_path, monkeypatch):
    install(ROPE_IS_RIGHT)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "spool"))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--benchmark-disable")  # of another pytest; not for this one
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")  # likewise: pytest-benchmark measures nothing in such
    results = measure_host_overhead("benchmarks.host_overhead.HostOverhead", KINDS, quick=True)

    assert results.outcomes["rope", "warpwatch"].measurement.status is Status.OK
    for case in (("rope", "warpwatch"), ("rope", "eager"), ("int4_linear", "eager"), ("flash_attention", "sdpa")):
        outcome = results.outcomes[case]
        assert outcome.measurement.status is Status.OK, outcome.measurement.reason
        assert len(outcome.samples_s) == outcome.measurement.sample_count == 5
        assert all(0 < sample_s < 1 for sample_s in outcome.samples_s)
        assert outcome.measurement.latency_s == statistics.median(outcome.samples_s)
        assert outcome.measurement.relative_error <= outcome.measurement.tolerance
    lacking = results.outcomes["int4_linear", "warpwatch"].measurement
    assert lacking.status is Status.UNAVAILABLE
    assert lacking.reason == "warpwatch.kernels of this commit has no operator int4_linear"

    (written,) = (tmp_path / "spool").iterdir()
    run, *records = [from_line(line) for line in written.read_text().splitlines()]
    assert isinstance(run, RunRecord)
    assert run.software["pytest-benchmark"]
    assert {record.workload for record in records if isinstance(record, WorkloadRecord)} == set(KINDS)
    assert [r for r in records if r.record == "measurement"] == [o.measurement for o in results.outcomes.values()]


def test_what_crashes_lies_or_hangs_costs_itself_alone(install):
    install(ABORTS_LIES_AND_HANGS)
    # What hangs is killed for its own silence, however long the others took before it.
    outcomes = measure_host_overhead("b", KINDS, quick=True, limits=Limits(visit_s=30)).outcomes
    misbehaving = ("flash_attention", "int4_linear", "rope")
    crashed, wrong, hung = (outcomes[operator, "warpwatch"].measurement for operator in misbehaving)
    assert {crashed.status, wrong.status, hung.status} == {Status.FAILED}
    failures = [each.failure for each in (crashed, wrong, hung)]
    assert failures == [Failure.CRASH, Failure.WRONG_RESULT, Failure.TIME_LIMIT]
    assert "signal 6" in crashed.reason
    assert "about to misbehave" in crashed.reason
    assert "relative error 1.00e+00 exceeds" in wrong.reason
    assert "no answer within 30 s" in hung.reason
    assert all(outcomes[operator, "eager"].measurement.status is Status.OK for operator in KINDS)


def test_what_asv_does_not_run_is_not_measured_even_when_all_else_is_lost(install, tmp_path, monkeypatch):
    install(ABORTS_LIES_AND_HANGS)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "spool"))
    name = "benchmarks.host_overhead.HostOverhead.track_host_overhead"
    rows = list(itertools.product(*HostOverhead.params))
    chosen = [rows.index(("flash_attention", "warpwatch"))]
    asv_values.use_benchmarks(SUITE)
    asv_values.selection({name: chosen}).write(tmp_path / "selection")
    monkeypatch.setenv(SELECTION_VARIABLE, str(tmp_path / "selection"))
    monkeypatch.setenv(QUICK_VARIABLE, "1")
    ((asked, outcome),) = HostOverhead().setup_cache().outcomes.items()
    assert asked == ("flash_attention", "warpwatch")
    assert "signal 6" in outcome.measurement.reason
    (written,) = (tmp_path / "spool").iterdir()
    records = [from_line(line) for line in written.read_text().splitlines()]
    assert {record.workload for record in records if record.record != "run"} == {"flash_attention"}


def test_a_process_that_cannot_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="libcudart is missing"):
        measure_host_overhead("b", KINDS)


def test_without_pytest_benchmark_it_is_not_available(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest_benchmark", None)
    results = measure_host_overhead("b", KINDS)
    with pytest.raises(NotImplementedError, match="pip install pytest-benchmark"):
        HostOverhead().setup(results, "rope", "warpwatch")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_operator_of_the_catalogue_has_a_smallest_call(device):
    assert set(KINDS) == set(BENCHMARKS) - WITHOUT
    for operator, kind in KINDS.items():
        workload = smallest(kind, device)
        assert (workload.operator, workload.name, workload.device) == (operator, operator, device)
        assert workload.cost.bytes < 50_000
        assert {"warpwatch", "eager"} <= set(workload.implementations)
