"""What asv's plugin answers out of a session's cache, and what it leaves to asv's own process."""

import itertools
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from perf_suite.benchmarks.rope import Rope
from perf_suite.catalogue import catalogue_jobs
from warpbench import asv as asv_plugin
from warpbench import asv_values
from warpbench.asv_metrics import Cache
from warpbench.protocol import Outcome, blank_record
from warpbench.records import Status

from .example_records import RUN_ON_H200

SUITE = Path(__file__).resolve().parents[2] / "perf_suite"
MEASURED, NEVER = ("cpu-fp32-b1-h8-s256-d128", "eager"), ("cpu-fp32-b1-h8-s256-d128", "torch_compile")


@pytest.fixture
def folder(tmp_path):
    """Where asv keeps a setup_cache's pickle: one combination measured, warm latency not known of it."""
    (job,) = [job for job in catalogue_jobs(("rope",)) if (job.workload.name, job.implementation) == MEASURED]
    measurement = replace(blank_record(RUN_ON_H200.run, job), status=Status.OK, latency_s=2e-6)
    outcome = Outcome(measurement=measurement, samples_s=(2e-6, 2e-6))
    cache = Cache(RUN_ON_H200, {(Rope.source(), *MEASURED): outcome}, {})
    (tmp_path / "cache.pickle").write_bytes(pickle.dumps(cache))
    return tmp_path


def answer(folder, method, combination, profile_path):
    """What asv reads, or "asv's process" where one would be started."""
    asv_values.use_benchmarks(SUITE)
    index = list(itertools.product(*Rope.params)).index(combination)
    result = folder / "result"
    run = asv_plugin._without_a_process(lambda spawner, **rest: result.write_text('"asv\'s process"') and ("", 0))
    name = f"benchmarks.rope.Rope.{method}-{index}"
    run(None, name, "{}", str(profile_path), str(result), cwd=str(folder), timeout=60.0)
    return json.loads(result.read_text())


def test_a_value_is_looked_up_and_only_a_profile_of_one_needs_a_process(folder):
    assert answer(folder, "track_latency", MEASURED, None) == {"samples": [2e-6, 2e-6], "number": 1}
    assert answer(folder, "track_latency", MEASURED, folder / "profile") == "asv's process"


@pytest.mark.parametrize("profile", [None, "profile"])
@pytest.mark.parametrize(("method", "combination"), [("track_warm_latency", MEASURED), ("track_latency", NEVER)])
def test_what_is_not_available_is_so_with_a_profile_too(method, combination, profile, folder):
    assert math.isnan(answer(folder, method, combination, profile))
