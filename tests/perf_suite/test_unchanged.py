"""Skipping what has been measured already, only when asked, and only what is certainly the same."""

from dataclasses import replace

import pytest

from perf_suite.catalogue import catalogue_jobs
from warpbench import unchanged
from warpbench.protocol import blank_record
from warpbench.records import Cpu, RunRecord, Status, to_line

JOBS = [job for job in catalogue_jobs(("rope",)) if job.workload.device == "cpu"]
RUN = RunRecord(
    run="today",
    commit="this very commit",
    environment="",
    started_at="2026-11-21T10:00:00+00:00",
    device="cpu",
    gpu=None,
    cpu=Cpu(model="AMD EPYC", cores=2, threads=1),
    software={"python": "3.11.7", "torch": "2.13.0"},
    ceilings=None,
    suite_sha256="this suite",
)
DIGESTS = {("rope", job.implementation): "aa" if job.implementation == "warpwatch" else None for job in JOBS}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """Results of an earlier commit, with or without changes to what they say."""
    monkeypatch.setenv(unchanged.ASKED_VARIABLE, "1")
    monkeypatch.setenv(unchanged.RESULTS_VARIABLE, str(tmp_path))

    def earlier(*, sha256="aa", status=Status.OK, quick=False, metrics=JOBS[0].metrics, **changed):
        of_before = {"run": "before", "commit": COMMIT, "started_at": "2026-11-20T10:00:00+00:00"}
        run = replace(RUN, **{**of_before, **changed})
        lines = [to_line(run)]
        for job in JOBS:
            blank = blank_record("before", job)
            digest = sha256 if job.implementation == "warpwatch" else None
            record = replace(blank, status=status, latency_s=1e-4, code_sha256=digest, quick=quick, metrics=metrics)
            lines.append(to_line(record))
        (tmp_path / "machine").mkdir()
        (tmp_path / "machine" / "01234567-env.context.jsonl").write_text("".join(line + "\n" for line in lines))

    return earlier


def known():
    return unchanged.unchanged(JOBS, RUN, DIGESTS)


def test_the_same_code_on_the_same_machine_names_the_commit_that_measured_it(earlier):
    earlier()
    assert known() == {("benchmarks.rope.Rope", job.workload.name): COMMIT for job in JOBS}


def test_without_a_request_nothing_is_skipped(earlier, monkeypatch):
    earlier()
    monkeypatch.delenv(unchanged.ASKED_VARIABLE)
    assert known() == {}


@pytest.mark.parametrize(
    "different",
    [
        {"sha256": "bb"},
        {"status": Status.FAILED},
        {"status": Status.INVALID},
        {"software": {"python": "3.11.7", "torch": "2.14.0"}},
        {"cpu": Cpu(model="Xeon", cores=2, threads=1)},
        {"commit": "this very commit"},
        {"quick": True},
        {"metrics": ()},
        {"suite_sha256": "another suite"},
        {"suite_sha256": None},
    ],
    ids=["code", "failed", "invalid", "torch", "processor", "itself", "quick", "fewer metrics", "suite", "old suite"],
)
def test_anything_else_is_measured(earlier, different):
    earlier(**different)
    assert known() == {}


def test_without_a_digest_nothing_is_certain(earlier):
    earlier()
    assert unchanged.unchanged(JOBS, RUN, dict.fromkeys(DIGESTS)) == {}
