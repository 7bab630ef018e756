"""The catalogue's rows, and that each can be prepared and is right by the reference."""

import subprocess
import sys

import pytest
import torch

from perf_suite.benchmarks.int8_linear import quantised
from perf_suite.catalogue import OPERATORS, workload_named, workloads_of
from warpbench.gate import Gate
from warpbench.operators import make_inputs, prepare
from warpbench.prepared import UnavailableError
from warpbench.setting import set_up

ROWS = [workload for operator in OPERATORS for workload in workloads_of(operator)]
ONLY_MOVE_DATA = {"kv_append", "paged_kv_append", "paged_kv_gather"}
CPU_ROWS = [workload for workload in ROWS if workload.device == "cpu"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_names_are_unique_within_an_operator(operator):
    names = [workload.name for workload in workloads_of(operator)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_rows_for_both_devices(operator):
    assert {workload.device for workload in workloads_of(operator)} == {"cuda", "cpu"}


@pytest.mark.parametrize("workload", ROWS, ids=lambda w: f"{w.operator}-{w.name}")
def test_a_row_states_work_and_at_least_one_kernel_and_one_baseline_unless_it_is_a_control(workload):
    assert workload.cost.flops > 0 or (workload.operator in ONLY_MOVE_DATA and workload.cost.flops == 0)
    assert workload.cost.bytes > 0
    assert 0 < workload.tolerance < 0.02
    if workload.operator == "control":
        assert workload.controls == workload.implementations
    else:
        assert workload.kernels
        assert workload.baselines
        assert set(workload.implementations) == {*workload.kernels, *workload.baselines}


@pytest.mark.outside  # needs the compiled kernels
@pytest.mark.parametrize("workload", CPU_ROWS, ids=lambda w: f"{w.operator}-{w.name}")
def test_every_cpu_implementation_agrees_with_the_reference(workload):
    try:
        setting = set_up(workload)
    except UnavailableError as missing:
        pytest.skip(str(missing))
    for implementation in workload.implementations:
        try:
            run = prepare(workload, implementation, setting.inputs).run
        except UnavailableError:
            assert implementation in workload.kernels  # the kernels may not be built; a baseline always is
            continue
        assert Gate(run, setting.inputs, setting.vectors, workload.tolerance).check() <= workload.tolerance


@pytest.mark.parametrize("workload", CPU_ROWS, ids=lambda w: f"{w.operator}-{w.name}")
def test_the_seed_decides_the_inputs_and_none_are_zero(workload):
    def activations(seed):
        try:
            inputs = make_inputs(workload, torch.Generator("cpu").manual_seed(seed))
        except UnavailableError as missing:
            pytest.skip(str(missing))
        return inputs.activations()

    for first, again, other in zip(activations(1), activations(1), activations(2), strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert first.count_nonzero() > 0.99 * first.numel()


@pytest.mark.parametrize("workload", [w for w in CPU_ROWS if w.operator == "int8_linear"], ids=lambda w: w.name)
def test_quantizing_loses_nothing_of_int8_linears_inputs_in_either_test_vector(workload):
    # Else the baselines that do not quantize would be judged by what they do not compute.
    vectors = set_up(workload).vectors
    assert not torch.equal(vectors[0].activations[0], vectors[1].activations[0])
    for vector in vectors:
        (x,) = vector.activations
        values, scales = quantised(x)
        assert ((values.double() * scales.double().unsqueeze(-1) - x.double()).abs() <= 2.0**-23 * x.abs()).all()


def test_without_transformers_a_whole_model_is_unavailable_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    row = next(workload for workload in CPU_ROWS if workload.operator == "language_model")
    with pytest.raises(UnavailableError, match=r"pip install 'warpwatch\[models\]'"):
        make_inputs(row, torch.Generator("cpu"))


def test_an_unknown_workload_is_refused_with_the_names_there_are():
    with pytest.raises(KeyError, match="cpu-fp32-b1-h8-s256-d128"):
        workload_named("rope", "b8")


def test_what_a_benchmark_process_imports_has_no_torch_in_it():
    program = (
        "import sys; import perf_suite.benchmarks.rope, perf_suite.benchmarks.compiled_code, "
        "perf_suite.benchmarks.host_overhead, warpbench.asv; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'asv', 'warpwatch.kernels')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
