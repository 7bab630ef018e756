"""Compiling ahead: what was compiled is stamped, and nothing else."""

import pytest
import torch

from perf_suite.catalogue import catalogue_jobs
from warpbench import Prepared, UnavailableError, ahead, operators

JOBS = [
    job
    for job in catalogue_jobs(("rope", "layer_norm"))
    if job.implementation in ("triton", "torch_compile") and job.workload.device == "cuda"
]
CODE = {(job.workload.operator, job.implementation): "0" * 64 for job in JOBS}


@pytest.fixture
def stamps(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "_STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda pid: set(range(4)))
    return tmp_path / "stamps"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, for which these compile")
def test_real_processes_that_compile_nothing_stamp_nothing(stamps):
    assert len(JOBS) >= ahead._JOBS_WORTH_A_PROCESS
    ahead.compile_ahead(JOBS, CODE)
    assert list(stamps.iterdir()) == []


def test_processes_that_are_killed_at_the_limit_stamp_nothing(stamps, monkeypatch):
    monkeypatch.setattr(ahead, "_LIMIT_S", 0.0)
    ahead.compile_ahead(JOBS, CODE)
    assert list(stamps.iterdir()) == []


def test_each_job_is_stamped_as_soon_as_it_is_compiled(tmp_path, monkeypatch):
    fails = {
        1: RuntimeError("out of shared memory"),
        3: torch.cuda.OutOfMemoryError("too large"),
        4: UnavailableError("Triton is not installed here"),
    }
    stamps = [tmp_path / str(index) for index in range(6)]
    done = []

    def prepare(workload, implementation, given):
        index = len(done)
        done.append([stamp.exists() for stamp in stamps])

        def run():
            if index in fails:
                raise fails[index]

        return Prepared(run=run)

    monkeypatch.setattr(operators, "prepare", prepare)
    monkeypatch.setattr(operators, "make_inputs", lambda workload, generator: None)
    monkeypatch.setattr(torch, "Generator", lambda device: torch.default_generator)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    ahead._make_first_calls(JOBS[:6], stamps)
    assert [stamp.exists() for stamp in stamps] == [True, False, True, False, True, True]
    assert done[2] == [True, False, False, False, False, False], "not at the end, when all are done"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_what_is_compiled_on_a_gpu_is_stamped(stamps):
    ahead.compile_ahead(JOBS[:6], CODE)
    assert len(list(stamps.iterdir())) == 6
