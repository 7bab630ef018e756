"""The Triton twins compiled by the real Triton for GPUs that are not here."""

import ast
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perf_suite.compiled.twins import compile_twins
from perf_suite.compiled.twins.forked import NoAnswerError, each_forked
from perf_suite.compiled.watched_kernels import ARCHITECTURES, watched_operators
from warpbench.compiled.cuda_binaries import NoToolsError, find_tools

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parents[2]
ROPE = [("_rope", architecture) for architecture in (ARCHITECTURES[0], "sm_90a", ARCHITECTURES[-1])]
LAUNCHES = """
import sys
from warpbench.compiled.architectures import compute_capability_of
from warpbench.operators import prepare
from warpbench.operators import make_inputs
from warpbench.output import parts
from perf_suite.compiled.twins.under_triton.pretended_gpu import pretended_gpu
from perf_suite.catalogue import OPERATORS, workloads_of
import torch
for architecture in sys.argv[1:]:
    for operator in OPERATORS:
        with pretended_gpu(compute_capability_of(architecture)) as launches:
            for workload in workloads_of(operator):
                if workload.device == "cuda" and "triton" in workload.implementations:
                    for out in parts(prepare(workload, "triton", make_inputs(workload, torch.Generator())).run()):
                        assert out.device.type == "cuda" and out.untyped_storage().data_ptr() == 0
        print((architecture, operator, {(launch.function, launch.configuration) for launch in launches}))
"""


@pytest.fixture(scope="module", autouse=True)
def _tools():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    try:
        find_tools()
    except NoToolsError as error:
        pytest.skip(str(error))


def reported_by(program, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_twins_choose_their_configs_for_a_gpu_that_is_not_here():
    launched = {}
    for line in reported_by(LAUNCHES, "sm_86", "sm_90a").splitlines():
        architecture, operator, launches = ast.literal_eval(line)
        launched[architecture, operator] = launches
    for operator, watched in watched_operators().items():
        assert {name for name, _ in launched["sm_90a", operator]} == set(watched.twins), "`watched` of the benchmark"
    ampere, hopper = (launched[architecture, "flash_attention"] for architecture in ("sm_86", "sm_90a"))
    assert any("'HEAD_DIM': 128" in how and "'BLOCK_KV': 128" in how for _, how in hopper)
    assert not any("'BLOCK_KV': 128" in how for _, how in ampere)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What one process makes of twins that compile and of what does not, and the cache that it fills."""
    cache = tmp_path_factory.mktemp("cache")
    expected = [*ROPE, ("_int4_linear", "sm_90a"), ("_flash_attention", "sm_70"), ("_unheard_of", "sm_90a")]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(cache))
        return compile_twins(expected), cache


def test_what_is_compiled_has_all_facts_and_keeps_the_time_it_took_whatever_else_does_not_compile(
    compiled, monkeypatch
):
    first, cache = compiled
    assert "no config for compute capability 70" in first.unavailable["_flash_attention", "sm_70"]
    assert first.unavailable[()] == "this commit's twin launches no such function"
    found = {twin.code.architecture: twin for twin in first.compiled if twin.code.kernel == "_rope"}
    assert found.keys() == {architecture for _, architecture in ROPE}, first.unavailable
    for twin in found.values():
        code = twin.code
        assert (code.threads_per_block, code.dynamic_shared_bytes) == (128, 0)
        assert code.instantiations > 1
        assert 16 < code.registers < 256
        assert 0 < code.occupancy <= 1
        assert code.instructions["LDG.128"] > 0
        assert 0.05 < twin.compile_s < 60
    assert len({twin.code.sha256 for twin in found.values()}) == 3
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    again = compile_twins(ROPE).compiled
    assert {twin.code.architecture: twin for twin in again} == found
    assert list((cache / "warpwatch/twins").glob("*.compile_s"))


def test_shared_memory_is_what_triton_requests_at_launch(compiled):
    first, _ = compiled
    (twin,) = (twin for twin in first.compiled if twin.code.kernel == "_int4_linear")
    assert twin.code.shared_bytes == 0
    assert twin.code.dynamic_shared_bytes > 8192
    assert twin.code.barriers == 1  # in an older ABI than nvcc's, where they stand elsewhere
    assert twin.code.instructions["HMMA"] > 0


def test_a_call_that_dies_costs_itself_alone():
    def raises():
        raise ValueError("no such instruction")

    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    results = dict(each_forked([dies, lambda: "compiled", raises, dies, lambda: 7]))
    assert (results[1], results[4]) == ("compiled", 7)
    assert {index for index, result in results.items() if isinstance(result, NoAnswerError)} == {0, 2, 3}
    assert "exit status -9" in str(results[0])
    assert "no such instruction" in str(results[2])
