"""asv's classes of compiled code: what they read of the library, and what they say of the rest."""

import itertools
import json
from pathlib import Path

import pytest

from perf_suite.benchmarks.compiled_code import CompiledCode, CompiledLibrary, CompiledSources
from perf_suite.compiled.session import read_compile_times, read_library
from perf_suite.compiled.watched_kernels import ARCHITECTURES
from warpbench import asv_values
from warpbench.jobs import SELECTION_VARIABLE
from warpbench.spool import FOLDER_VARIABLE
from warpwatch.kernels.extension import extension_path

from .test_machine_code import values

SUITE = Path(__file__).resolve().parents[2] / "perf_suite"


@pytest.fixture
def spool(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_benchmarks_that_asv_does_not_run_are_not_read(spool, monkeypatch, tmp_path_factory):
    asked = [("rope_pairs", "sm_86"), ("rope_pairs", "sm_90a")]
    indices = [list(itertools.product(*CompiledCode.params)).index(each) for each in asked]
    asv_values.use_benchmarks(SUITE)
    selection = asv_values.selection({"benchmarks.compiled_code.CompiledCode.track_registers": indices})
    path = tmp_path_factory.mktemp("asked") / "selection.json"
    selection.write(path)
    monkeypatch.setenv(SELECTION_VARIABLE, str(path))
    cache = CompiledCode().setup_cache()
    if not cache.found:
        pytest.skip(cache.why_not())
    assert sorted(cache.found) == asked
    (file,) = spool.iterdir()
    assert len(file.read_text().splitlines()) == 1 + len(asked)


def test_the_compile_time_of_each_source_is_recorded():
    if extension_path() is None:
        pytest.skip("the kernels are not built")
    benchmark, cache = CompiledSources(), read_compile_times()
    found = values(benchmark, cache, "track_compile_time")
    for (source,) in itertools.product(*benchmark.params):
        assert (source,) in found or "no such source" in cache.why_not(source)
    assert all(0 < value < 3600 for value in found.values())


def test_the_size_of_the_library_and_the_compile_time_of_all_sources_are_recorded():
    built = extension_path()
    if built is None or not json.loads(built.with_name("_C.build.json").read_text())["sources"]:
        pytest.skip("the kernels are not built")
    benchmark, cache = CompiledLibrary(), read_library()
    benchmark.setup(cache)
    assert benchmark.track_library_size(cache) == len(built.read_bytes())
    times = values(CompiledSources(), read_compile_times(), "track_compile_time")
    assert benchmark.track_build_time(cache) >= sum(times.values()) > 0


def test_kernels_of_another_commit_than_asvs_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ASV_ENV_DIR", str(tmp_path))
    cache = CompiledCode().setup_cache()
    assert cache.found == {}
    assert f"not from asv's {tmp_path}" in cache.why_not("rope_pairs", ARCHITECTURES[0])
    assert values(CompiledCode(), cache, "track_registers") == {}
    assert values(CompiledSources(), read_compile_times(), "track_compile_time") == {}
    with pytest.raises(NotImplementedError, match="not from asv's"):
        CompiledLibrary().setup(read_library())
