"""`warpbench adopt`: benchmark files in the style of other projects, unchanged, measured on the CPU.

do_bench is replaced, so nothing here needs a GPU. The files are ours; their structure is that of Liger-Kernel 0.8.5's
benchmark/scripts, sglang's perf_report files, Triton's tutorials and tritonbench's operators.
"""

import subprocess
import sys

import pytest
import torch

from warpbench import AdoptedBenchmark, AdoptedCase, Case
from warpbench.adoption import timers
from warpbench.adoption.call import prepare
from warpbench.adoption.script import Script
from warpbench.adoption.sweep import NotAdoptedError, case_name, dtype_of
from warpbench.cost import Cost
from warpbench.workload import Workload

pytest.importorskip("triton")

LIGER_UTILS = """
import argparse
from dataclasses import dataclass
from typing import Any

QUANTILES = [0.5, 0.2, 0.8]

@dataclass
class SingleBenchmarkRunInput:
    x: Any
    kernel_provider: str
    kernel_operation_mode: str = ""
    extra_benchmark_config: Any = None

def parse_benchmark_script_args():
    return argparse.ArgumentParser().parse_args()

def run_benchmarks(bench_test_fn, kernel_name, metric_name, metric_unit, x_name, x_label, x_values, kernel_providers,
                   kernel_operation_modes=[None], extra_benchmark_configs=None, overwrite=False):
    raise RuntimeError("Benchmarks can only be run on GPU.")
"""

LIGER = """
import torch
import triton
from utils import QUANTILES, SingleBenchmarkRunInput, parse_benchmark_script_args, run_benchmarks

def bench_speed_scale(input: SingleBenchmarkRunInput):
    config = input.extra_benchmark_config
    x = torch.randn(config["M"], input.x, dtype=config["dtype"], requires_grad=True)

    def forward():
        return x * 2.0 if input.kernel_provider == "liger" else torch.mul(x, 2.0)

    if input.kernel_operation_mode == "forward":
        ms_50, ms_20, ms_80 = triton.testing.do_bench(forward, grad_to_none=[x], rep=500, quantiles=QUANTILES)
    else:
        y = forward()
        dy = torch.ones_like(y)
        backward = lambda: y.backward(dy, retain_graph=True)
        ms_50, ms_20, ms_80 = triton.testing.do_bench(backward, grad_to_none=[x], quantiles=QUANTILES)

def bench_memory_scale(input):
    raise AssertionError("memory is not adopted")

if __name__ == "__main__":
    args = parse_benchmark_script_args()
    common_configs = {
        "kernel_name": "scale", "x_name": "H", "x_label": "hidden size", "x_values": [16, 32],
        "kernel_providers": ["huggingface", "liger"],
        "extra_benchmark_configs": [{"M": 8, "dtype": torch.float32, "eps": 1e-6}],
    }
    run_benchmarks(bench_test_fn=bench_speed_scale, kernel_operation_modes=["forward", "backward"],
                   metric_name="speed", metric_unit="ms", **common_configs)
    run_benchmarks(bench_test_fn=bench_memory_scale, kernel_operation_modes=["full"],
                   metric_name="memory", metric_unit="MB", **common_configs)
"""

PERF_REPORT = """
import argparse
import torch
import triton
from triton.testing import do_bench_cudagraph

@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["batch_size", "hidden_size"], x_vals=[], line_arg="provider", line_vals=["torch", "sgl-kernel"],
        line_names=["PyTorch", "SGL"], styles=[], ylabel="us", plot_name="add", args={"dtype": torch.float32},
    )
)
def benchmark(batch_size, hidden_size, provider, dtype, N):
    x = torch.randn(batch_size, hidden_size, dtype=dtype)
    if provider == "sgl-kernel":
        fn = lambda: x.add_(N)  # in place
    else:
        fn = lambda: x + N
    print("measuring", provider)
    ms, min_ms, max_ms = do_bench_cudagraph(fn, quantiles=[0.5, 0.2, 0.8])
    return 1000 * ms, 1000 * max_ms, 1000 * min_ms

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 16])
    args = parser.parse_args()
    benchmark.benchmarks.x_vals = [(1, size) for size in args.sizes]
    benchmark.run(print_data=True, show_plots=True, save_path="results", N=3)
"""

TUTORIAL = """
import torch
import triton

DEVICE = torch.device("cpu")

@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"], x_vals=[2**i for i in range(4, 6)], line_arg="provider", line_vals=["triton", "torch"],
        line_names=["Triton", "Torch"], ylabel="GB/s", plot_name="vector-add-performance", args={},
    )
)
def benchmark(size, provider):
    x = torch.rand(size, device=DEVICE)
    quantiles = [0.5, 0.2, 0.8]
    if provider == "torch":
        ms, min_ms, max_ms = triton.testing.do_bench(lambda: x + x, quantiles=quantiles)
    if provider == "triton":
        with torch.no_grad():
            ms, min_ms, max_ms = triton.testing.do_bench(lambda: torch.add(x, x), quantiles=quantiles)
    gbps = lambda ms: 12 * size / ms * 1e-6
    return gbps(ms), gbps(max_ms), gbps(min_ms)

benchmark.run(print_data=True, show_plots=True)
"""

RATIO = TUTORIAL.replace('if provider == "triton":', "if True:")  # times two calls for the provider torch

TRITON_OP = """
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

import torch
from torch.utils._pytree import tree_map

REGISTERED_BENCHMARKS = {}

class Mode(Enum):
    FWD = "fwd"

@dataclass
class Backend:
    baseline: bool
    enabled: bool

def find_enabled_benchmarks(mode, backends, skipped):
    return [name for name in backends if backends[name].enabled]

def input_cast(condition, action, inputs):
    return tree_map(lambda value: action(value) if condition(value) else value, inputs)

def apply_precision(operator, precision):
    assert precision == "bf16"
    operator.example_inputs = tree_map(lambda value: value.bfloat16(), operator.example_inputs)

def name_of(module):
    return module.partition("tritonbench.operators.")[2].partition(".")[0]

def register_benchmark(baseline=False, enabled=True):
    def decorator(function):
        registered = REGISTERED_BENCHMARKS.setdefault(name_of(function.__module__), OrderedDict())
        registered[function.__name__] = Backend(baseline, enabled)
        return function
    return decorator

class BenchmarkOperator:
    mode = Mode.FWD

    def __init__(self, tb_args, extra_args=None):
        torch.manual_seed = lambda seed: None
        self.tb_args, self.device, self.name = tb_args, tb_args.device, name_of(type(self).__module__)
        if tb_args.precision == "bypass":
            tb_args.precision = self.DEFAULT_PRECISION

    def _get_bm_func(self, name):
        return getattr(self, name)(*self.example_inputs)
"""

TRITON_PARSER = """
import argparse

def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--op")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bypass")
    return parser
"""

OPERATOR = """
import torch
from tritonbench.utils.triton_op import BenchmarkOperator, register_benchmark
from .kernels import doubled

class Operator(BenchmarkOperator):
    DEFAULT_PRECISION = "bf16"

    def get_input_iter(self):
        for size in (8, 16):
            yield (torch.randn(size),)

    @register_benchmark(baseline=True)
    def eager(self, x):
        return lambda: x + x

    @register_benchmark()
    def triton_double(self, x):
        assert x.dtype == torch.bfloat16
        return lambda: doubled(x)

    @register_benchmark()
    def torch_compiled(self, x):
        return lambda: torch.add(x, x)

    @register_benchmark(enabled=False)
    def helion_double(self, x):
        raise AssertionError("not enabled")

    def get_x_val(self, example_inputs):
        return tuple(example_inputs[0].shape)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A git checkout called liger-kernel with warpbench's configuration, its controls and one file of each kind."""
    folder = tmp_path_factory.mktemp("adopt") / "liger-kernel"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    warpbench(folder, "init")
    (folder / "benchmarks" / "rms_norm.py").unlink()
    write(folder / "benchmark" / "scripts", utils=LIGER_UTILS, benchmark_scale=LIGER)
    write(folder / "sgl-kernel", bench_add=PERF_REPORT)
    write(folder / "tutorials", **{"01-vector-add": TUTORIAL})
    operators = folder / "tritonbench" / "operators"
    write(operators.parent, __init__="")
    write(operators.parent / "utils", __init__="", triton_op=TRITON_OP, parser=TRITON_PARSER)
    write(operators, __init__="")
    write(operators / "double", __init__="", operator=OPERATOR, kernels="def doubled(x): return x * 2")
    return folder


def warpbench(folder, *arguments, status=0):
    """The command's output. Its own process, as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "warpbench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def write(folder, **files):
    """Python files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def workload(name, **shape):
    """The adopted case of that name on the CPU."""
    return Workload(
        operator="adopted",
        name=name,
        device="cpu",
        dtype="unknown",
        parameters=shape,
        cost=Cost(flops=0, bytes=0),
        implementations=(),
        tolerance=0,
    )


@pytest.mark.outside
def test_files_of_four_kinds_are_adopted(project):
    files = ["benchmark/scripts/*.py", "sgl-kernel/*.py", "tutorials/*.py", "tritonbench/operators/*/operator.py"]
    out = warpbench(project, "adopt", *files, "--kernel", "sgl-kernel")
    assert "utils.py: nothing to adopt" in out
    for line in (
        "4 cases of scale in benchmarks/adopted_scale.py; kernels liger; baselines huggingface",
        "2 cases of benchmark in benchmarks/adopted_add.py; kernels sgl-kernel; baselines torch",
        "2 cases of benchmark in benchmarks/adopted_vector_add.py; kernels triton; baselines torch",
        "2 cases of double in benchmarks/adopted_double.py; kernels triton_double; baselines eager, torch_compiled",
    ):
        assert line in out
    assert 'dtype="bf16"' in (project / "benchmarks" / "adopted_double.py").read_text()
    assert not (project / "results").exists()  # perf_report's run was not run


@pytest.mark.outside
@pytest.mark.parametrize(
    ("operator", "case", "kernel", "baseline"),
    [
        ("scale", "backward-H=16-M=8-fp32-eps=1e-06", "liger", "huggingface"),
        ("add", "batch_size=1-hidden_size=16-fp32-N=3", "sgl-kernel", "torch"),
        ("vector_add", "size=32", "triton", "torch"),
        ("double", "fwd-x=8", "triton_double", ""),
    ],
)
def test_an_adopted_file_is_measured_unchanged(project, operator, case, kernel, baseline):
    out = warpbench(project, "run", operator, "--quick", "--case", case)
    assert f"  {kernel} " in out
    assert f"vs {baseline}" in out
    assert "no correctness gate: no reference is known" in out
    assert "bandwidth" not in out


@pytest.mark.outside
def test_a_file_that_cannot_be_adopted_stops_no_other(project):
    write(
        project / "bench",
        bench_broken="import nowhere_to_be_found  # perf_report",
        bench_crash="import os  # perf_report\nos._exit(3)",
        bench_direct="import triton\ntriton.testing.do_bench(lambda: None)",
        bench_plus=TUTORIAL,
    )
    out = warpbench(project, "adopt", "bench/*.py", status=1)
    assert (
        "bench_broken.py: not adopted: it fails: ModuleNotFoundError: No module named 'nowhere_to_be_found'; install"
        in out
    )
    assert "bench_crash.py: not adopted: its process ended with status 3" in out
    assert "bench_direct.py: nothing to adopt: it calls do_bench itself" in out
    assert "1 of 4 files adopted" in out


@pytest.mark.outside
def test_an_adopted_benchmark_stays_until_update_and_names_the_series_that_end(project):
    write(project / "changing", bench_change=TUTORIAL)
    warpbench(project, "adopt", "changing/bench_change.py")
    write(project / "changing", bench_change=TUTORIAL.replace("range(4, 6)", "range(5, 7)"))
    assert "--update rewrites it" in warpbench(project, "adopt", "changing/bench_change.py")
    assert "these series end: size=16\n" in warpbench(project, "adopt", "--update", "changing/bench_change.py")


@pytest.mark.outside
def test_all_kernels_of_the_project_are_found_and_a_choice_is_remembered(project):
    several = LIGER.replace('["huggingface", "liger"]', '["torch", "liger_norm", "liger_fused_norm"]')
    write(project / "named", utils=LIGER_UTILS, bench_norm=several, bench_family=several.replace("liger", "quack"))
    out = warpbench(project, "adopt", "named/bench_*.py")
    assert "kernels liger_norm, liger_fused_norm; baselines torch" in out  # named like the project
    assert "kernels quack_norm, quack_fused_norm; baselines torch" in out  # of the first that is no usual baseline
    for arguments in (["--kernel", ".*_fused_norm"], []):
        out = warpbench(project, "adopt", "--update", "named/bench_norm.py", *arguments)
        assert "kernels liger_fused_norm; baselines torch, liger_norm" in out


def test_a_case_that_the_file_no_longer_has_fails(tmp_path):
    write(tmp_path, changed=TUTORIAL.replace('["size"]', '["n"]').replace("(size, provider)", "(n, provider, size=1)"))
    with pytest.raises(NotAdoptedError, match="the file no longer measures benchmark size=16; `warpbench adopt`"):
        prepare(tmp_path / "changed.py", "benchmark", workload("size=16", size=16), "torch")


def test_a_function_that_times_several_calls_is_refused_until_one_is_named(tmp_path):
    write(tmp_path, ratio=RATIO)
    with pytest.raises(NotAdoptedError, match="times 2 calls for torch, which cannot be one number: name one of them"):
        prepare(tmp_path / "ratio.py", "benchmark", workload("size=16", size=16), "torch")
    second = prepare(tmp_path / "ratio.py", "benchmark", workload("size=16", size=16), "torch#2")
    assert not second.run.with_grad


def test_an_adopted_call_resets_gradients_and_keeps_the_mode_of_autograd():
    x = torch.ones(2, requires_grad=True)
    seen = []

    def bench():
        from triton.testing import do_bench

        with torch.no_grad():
            do_bench(lambda: seen.append((torch.is_grad_enabled(), x.grad)), grad_to_none=[x])

    with timers.replaced():
        assert timers.calls_of(bench) == 1
        call = timers.call_of(bench, 0)
    x.grad = torch.ones(2)
    assert call() == ()
    assert seen == [(False, None)]


def test_an_autotuner_times_its_own_candidates(monkeypatch):
    monkeypatch.setattr("triton.testing.do_bench", lambda fn: "timed")
    with timers.replaced():
        from triton import testing

        for module in ("triton.runtime.autotuner", "torch._inductor.runtime.triton_heuristics"):
            assert eval("do_bench(None)", {"__name__": module, "do_bench": testing.do_bench}) == "timed"


def test_a_value_chosen_by_the_machines_memory_is_measured_as_it_was_adopted(tmp_path):
    write(tmp_path, tutorial=TUTORIAL)
    script = Script(tmp_path / "tutorial.py")
    script.run()
    case, shape = script.sweeps["benchmark"].case("size=1024", {"size": 1024})
    with script.surroundings():
        assert timers.calls_of(lambda: case.call("torch", shape)) == 1
    with pytest.raises(NotAdoptedError, match="no longer measures benchmark size=1024-mode=x"):
        script.sweeps["benchmark"].case("size=1024-mode=x", {"size": 1024, "mode": "x"})


def test_files_of_two_folders_may_share_the_names_of_their_modules(tmp_path):
    scripts = []
    for folder, factor in (("one", 2), ("two", 3)):
        write(tmp_path / folder, utils=LIGER_UTILS + f"FACTOR = {factor}", benchmark_scale=LIGER + "\nimport utils")
        scripts.append(Script(tmp_path / folder / "benchmark_scale.py"))
        scripts[-1].run()
    for script, factor in zip(scripts, (2, 3), strict=True):
        with script.surroundings():
            assert factor == sys.modules["utils"].FACTOR
    assert not str(getattr(sys.modules.get("utils"), "__file__", "")).startswith(str(tmp_path))


def test_names_of_cases():
    assert case_name([("", "forward"), ("H", 1024), ("dtype", torch.bfloat16)]) == "forward-H=1024-bf16"
    assert case_name([("model", "meta-llama/Llama 3")]) == "model=meta-llama_Llama_3"
    assert dtype_of([torch.bfloat16, 3, "fp16"]) is None
    assert dtype_of([torch.bfloat16, 3, "silu"]) == "bf16"


def test_cases_that_differ_in_a_dictionary_alone_are_distinguished(tmp_path):
    first = "(8, {'fused': True, 'layout': None})"
    options = f"[{first}, (8, {{'fused': False, 'layout': 'x'}}), {first}]"
    text = TUTORIAL.replace('["size"]', '["size", "flags"]').replace("[2**i for i in range(4, 6)]", options)
    write(tmp_path, bench=text.replace("(size, provider)", "(size, flags, provider)"))
    script = Script(tmp_path / "bench.py")
    script.run()
    assert list(script.sweeps["benchmark"].cases) == ["size=8", "size=8-fused=False-layout=x"]


def test_a_provider_named_like_a_part_of_the_class_is_refused():
    with pytest.raises(TypeError, match='write "reference#1" for the provider'):

        class Adopted(AdoptedBenchmark):
            file = "x.py"
            sweep = "x"
            kernels = ("reference",)
            cases = (AdoptedCase("n=1", {"n": 1}),)


def test_a_cost_that_is_not_known_is_not_zero_bytes():
    assert AdoptedCase("n=1", {"name": "x", "device": "cuda"}).shape == {"name": "x", "device": "cuda"}
    with pytest.raises(ValueError, match="bytes must be positive"):
        Case("r1", dtype="fp32", tolerance=0, bytes=0)
    with pytest.raises(ValueError, match="give both or neither"):
        Case("r1", dtype="fp32", tolerance=0, bytes=None, flops=3)
