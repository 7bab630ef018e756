"""Whether a commit runs the same code: real builds of one operator, edited."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_suite.catalogue import OPERATORS, catalogue_jobs, workloads_of
from perf_suite.compiled import code_digest
from perf_suite.compiled.installed_kernels import NoKernelsError, library
from warpbench import unchanged
from warpbench.compiled.cuda_binaries import NoToolsError, cubins_of, find_tools

from .cuda_sources import needs_nvcc

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, "kernels")
from building import build_extension
build_extension(Path.cwd(), Path("kernels/_C.abi3.so").resolve())
"""
DIGESTS = """
import sys
sys.path[:0] = ["."]
from perf_suite.compiled.code_digest import code_digest
for question in sys.argv[1:]:
    implementation, _, gpu = question.partition(":")
    print(code_digest(implementation, "rope", gpu or None))
"""
ON_HOPPER, ON_ADA, ON_THE_CPU, TWIN = "warpwatch:9.0", "warpwatch:8.9", "warpwatch:", "triton:9.0"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The kernels' package with one operator, built for Hopper, and this suite next to it."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("*.so", "*.json", "__pycache__", "csrc", "results")
    shutil.copytree(ROOT / "kernels", folder / "kernels", ignore=ignored)
    for part in ("framework", "primitives", "rope"):
        shutil.copytree(ROOT / "kernels/csrc" / part, folder / "kernels/csrc" / part)
    (folder / "warpwatch").mkdir()
    (folder / "warpwatch/kernels").symlink_to("../kernels")
    (folder / "perf_suite").symlink_to(ROOT / "perf_suite")
    build(folder)
    return folder


def run(checkout, program, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=checkout,
        env={**os.environ, "WARPWATCH_CUDA_ARCHS": "90a", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(checkout):
    run(checkout, BUILD)


def digests(checkout, *questions, **environment):
    return dict(zip(questions, run(checkout, DIGESTS, *questions, **environment).split(), strict=True))


ALL = (ON_HOPPER, ON_THE_CPU, TWIN)


@pytest.fixture(scope="module")
def unchanged_digests(checkout):
    return digests(checkout, *ALL)


@pytest.fixture(scope="module")
def compiled_again(checkout, tmp_path_factory):
    """A copy whose sources are compiled; each build undoes the last test's change too."""
    return shutil.copytree(checkout, tmp_path_factory.mktemp("compiled again") / "checkout", symlinks=True)


@contextlib.contextmanager
def edited(checkout, file, before, after):
    path = checkout / "kernels" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    try:
        yield
    finally:
        path.write_text(text)


@needs_nvcc
@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("operators/rope.py", '"""Rotary', '"""A word more. Rotary', set()),
        ("operators/rope.py", "import torch\n", "import torch\n\nUSED = 1\n", {ON_HOPPER, ON_THE_CPU}),
        ("triton/rope.py", "@triton.jit\n", "# a word more\n\n@triton.jit\n", set()),
        ("triton/rope.py", "a * cos - b * sin", "a * cos - 2 * b * sin", {TWIN}),
        ("triton/rope.py", "block_seq=32", "block_seq=64", {TWIN}),
        ("operators/_devices.py", "import torch\n", "import torch\n\nUSED = 1\n", set(ALL)),
    ],
)
def test_the_digest_changes_with_the_python_that_is_run(file, before, after, changed, checkout, unchanged_digests):
    with edited(checkout, file, before, after):
        new = digests(checkout, *ALL)
    assert {question for question in ALL if new[question] != unchanged_digests[question]} == changed


@needs_nvcc
@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("csrc/rope/rope.cu", "// Maps threads", "// A word more.\n// Maps threads", set()),
        ("csrc/rope/rope.cu", "b * sin[0], out[first]", "b * sin[0] * 2, out[first]", {ON_HOPPER}),
        ("csrc/rope/rope_tiles.h", "int64_t{4} * 132 * 2", "int64_t{4} * 132 * 3", {ON_HOPPER}),
        ("csrc/rope/rope_cpu.cpp", "namespace warpwatch {", "namespace warpwatch {\n// A word more.\n", set()),
        ("csrc/rope/binding.cpp", '"rope"', '"ROPE"', {ON_HOPPER, ON_THE_CPU}),
    ],
)
def test_the_digest_changes_with_the_code_that_is_compiled(
    file, before, after, changed, compiled_again, unchanged_digests
):
    with edited(compiled_again, file, before, after):
        build(compiled_again)
        new = digests(compiled_again, *ALL)
    assert {question for question in ALL if new[question] != unchanged_digests[question]} == changed


@needs_nvcc
def test_an_unknown_digest_is_none(checkout):
    found = digests(checkout, "eager:9.0", ON_ADA, "triton:", ON_HOPPER)
    assert found["eager:9.0"] == found["triton:"] == "None"
    assert found[ON_ADA] == "None", "built for Hopper alone, with no PTX for another GPU"
    pretended = digests(checkout, ON_HOPPER, WARPWATCH_COMPUTE_CAPABILITY="75")
    assert pretended[ON_HOPPER] == "None", "another GPU's kernels run"
    record = checkout / "kernels/_C.build.json"
    record.rename(checkout / "elsewhere.json")
    try:  # a commit whose build left no record
        older = digests(checkout, ON_HOPPER, TWIN)
    finally:
        (checkout / "elsewhere.json").rename(record)
    assert older[ON_HOPPER] == "None"
    assert older[TWIN] != "None"


@functools.cache
def built_for():
    """A compute capability that the library here has machine code for; None without a library or NVIDIA's tools."""
    try:
        built = {cubin.architecture for cubin in cubins_of(library(), find_tools())}
    except (NoKernelsError, NoToolsError):
        return None
    known = {"sm_90a": "9.0", "sm_89": "8.9", "sm_86": "8.6", "sm_75": "7.5", "sm_120": "12.0"}
    return next((capability for name, capability in known.items() if name in built), None)


OURS = [
    (operator, implementation, device)
    for operator in OPERATORS
    for implementation, device in sorted({(name, row.device) for row in workloads_of(operator) for name in row.kernels})
]


def test_the_catalogue_has_kernels_of_ours_in_all_operators_but_the_controls():
    assert {operator for operator, _, _ in OURS} == set(OPERATORS) - {"control"}
    assert len({operator for operator, _, _ in OURS}) == 30


@pytest.mark.skipif(built_for() is None, reason="the kernels are not built here, or there is no cuobjdump")
@pytest.mark.parametrize(("operator", "implementation", "device"), OURS)
def test_every_implementation_of_ours_has_a_digest(operator, implementation, device, monkeypatch):
    monkeypatch.delenv("WARPWATCH_COMPUTE_CAPABILITY", raising=False)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    digest = code_digest.code_digest(implementation, operator, built_for() if device == "cuda" else None)
    assert digest is not None
    assert len(digest) == 64


@pytest.mark.skipif(built_for() is None, reason="the kernels are not built here, or there is no cuobjdump")
def test_a_session_knows_the_digest_of_every_operator():
    gpu = SimpleNamespace(compute_capability=built_for())
    jobs = [job for job in catalogue_jobs() if job.workload.device == "cuda" and job.implementation in ("warpwatch",)]
    found = unchanged.digests(jobs, SimpleNamespace(gpu=gpu))
    assert {operator for (operator, _), digest in found.items() if digest} == set(OPERATORS) - {"control"}


def test_an_operator_that_the_commit_lacks_has_no_digest():
    assert code_digest.code_digest("warpwatch", "no_such_operator", None) is None
    assert code_digest.code_digest("triton", "no_such_operator", "9.0") is None


@pytest.mark.parametrize(
    ("operator", "launchers"),
    [
        ("paged_kv_append", {"paged_kv/paged_kv.cu", "paged_kv/binding.cpp", "paged_kv/operands.cpp"}),
        ("int8_linear", {"int8_linear/int8_linear_sm80.cu", "quantize_int8/quantize_int8.cu"}),
        ("int4_decode_attention", {"decode_attention/decode_attention_combine.cu", "quantized_decode/operands.cpp"}),
        ("paged_decode_attention", {"decode_attention/decode_attention_combine.cu"}),
        ("linear", {"linear_activation/linear_activation_gemv_sm90a.cu", "linear_activation/binding.cpp"}),
        ("linear_silu", {"linear_activation/linear_activation_sm80.cu", "linear_activation/binding.cpp"}),
        ("ffn_gelu", {"linear_activation/linear_activation_sm75.cu", "linear_activation/binding.cpp"}),
        ("swiglu", {"linear_activation/activation_rows.cu", "linear_activation/binding.cpp"}),
        ("naive_attention", {"attention_ladder/naive_attention.cu", "attention_ladder/binding.cpp"}),
        ("flash_attention_varlen", {"flash_attention/flash_attention_packed_sm80.cu"}),
    ],
)
def test_an_operator_has_the_launchers_that_it_shares(operator, launchers, monkeypatch):
    sources = ROOT / "kernels/csrc"
    facts = SimpleNamespace(host_sha256="")
    all_sources = {str(path.relative_to(sources)): facts for path in sources.rglob("*.c*") if path.suffix != ".cuh"}
    monkeypatch.setattr(code_digest, "compiled_sources", lambda: all_sources)
    found = {line.split()[0] for line in code_digest._host_code(operator, on_gpu=True)}
    assert launchers <= found
    assert not any(source.startswith("rope/") for source in found)
