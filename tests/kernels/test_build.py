"""The build itself, on a copy of the framework and one operator: every subset links and runs, and nothing is redone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpwatch.kernels.building import architectures, object_store
from warpwatch.kernels.building.toolchain import find_cuda

ROOT = Path(__file__).resolve().parents[2]

BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, "kernels")
from building import build_extension
print(build_extension(Path.cwd(), Path("out/_C.abi3.so").resolve()))
"""

ADD = """
import torch
torch.ops.load_library("out/_C.abi3.so")
print(torch.ops.warpwatch.vector_add(torch.tensor([1.0, 2.0]), torch.tensor([3.0, -5.0])).tolist())
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for part in ("building", "csrc/framework", "csrc/primitives", "csrc/vector_add"):
        shutil.copytree(ROOT / "kernels" / part, tmp_path / "kernels" / part)
    return tmp_path


def leave_sources(checkout: Path, *kept: str) -> None:
    """Of all that is compiled: a library that links, for what loads none."""
    csrc = checkout / "kernels/csrc"
    for source in [*csrc.rglob("*.cpp"), *csrc.rglob("*.cu")]:
        if str(source.relative_to(csrc)) not in kept:
            source.unlink()


def run(checkout: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def build(checkout: Path, expected: str) -> subprocess.CompletedProcess[str]:
    done = run(checkout, BUILD, WARPWATCH_CUDA_ARCHS=expected)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "True"
    return done


needs_cuda = pytest.mark.skipif(find_cuda() is None, reason="no CUDA compiler here")


@pytest.mark.parametrize(
    "expected",
    [architectures.NONE, *(pytest.param(each, marks=needs_cuda) for each in ("75", "90a", "120", "75;86;89;90a;120"))],
)
def test_every_subset_of_architectures_links_and_runs(expected: str, checkout: Path) -> None:
    build(checkout, expected)
    added = run(checkout, ADD)
    assert added.stdout.strip() == "[4.0, -3.0]", added.stderr


def test_only_what_changed_is_compiled_again(checkout: Path) -> None:
    build(checkout, "none")
    built = (checkout / "out/_C.abi3.so").stat()
    again = build(checkout, "none")
    assert "no work to do" in again.stdout
    assert (checkout / "out/_C.abi3.so").stat().st_mtime_ns == built.st_mtime_ns

    header = checkout / "kernels/csrc/vector_add/vector_add.h"
    header.write_text(header.read_text() + "// a word more\n")
    after = build(checkout, "none").stdout
    assert "vector_add_cpu.cpp" in after
    assert "vector_add/binding.cpp" in after
    assert "checks.cpp" not in after


def record(checkout: Path) -> dict[str, dict[str, object]]:
    content = json.loads((checkout / "out/_C.build.json").read_text())
    assert content["schema"] == 1
    return dict(content["sources"])


@needs_cuda
def test_another_checkout_takes_every_object_from_the_store(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    elsewhere = tmp_path_factory.mktemp("a") / "longer path"
    shutil.copytree(checkout, elsewhere)
    built = build(checkout, "75")
    first = record(checkout)
    assert {"vector_add/vector_add.cu", "vector_add/vector_add_cpu.cpp", "vector_add/binding.cpp"} <= first.keys()
    assert f"compiled {len(first)} of {len(first)} sources" in built.stderr
    for facts in first.values():
        assert isinstance(facts["compile_s"], float)
        assert 0.05 < facts["compile_s"] < 300

    assert f"compiled 0 of {len(first)} sources" in build(elsewhere, "75").stderr
    assert record(elsewhere) == first

    header = elsewhere / "kernels/csrc/vector_add/vector_add.cu"
    header.write_text(header.read_text() + "// a word more\n")
    assert "compiled 1 of" in build(elsewhere, "75").stderr
    # Of another set of architectures: the kernel, and the source that names the set.
    assert f"compiled 2 of {len(first)} sources" in build(elsewhere, "86").stderr


def test_a_store_that_cannot_be_written_to_is_no_error(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    leave_sources(checkout, "framework/checks.cpp")
    file = tmp_path_factory.mktemp("cache") / "a file"
    file.write_text("")
    done = run(checkout, BUILD, WARPWATCH_CUDA_ARCHS="none", XDG_CACHE_HOME=str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_objects_that_were_not_used_for_longest_leave_the_store(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "older", "oldest")):
        for suffix in (".o", ".times"):
            (tmp_path / f"{name}{suffix}").write_bytes(bytes(100))
        os.utime(tmp_path / f"{name}.o", (1e9 - age, 1e9 - age))
    object_store.prune(tmp_path, largest_bytes=250)
    assert {path.name for path in tmp_path.iterdir()} == {"newest.o", "newest.times", "older.o", "older.times"}


@needs_cuda
@pytest.mark.parametrize(
    ("source", "before", "after", "is_other_code"),
    [
        ("vector_add.cu", "// A thread adds", "// A word more.\n//\n// A thread adds", False),
        ("vector_add.cu", "if (p.count == 0)", "if (p.count == 7)", True),
        ("vector_add.cu", "vector_add_pieces<Element, false><<<", "vector_add_pieces<Element, true><<<", True),
        ("vector_add.cu", "kThreads = 256", "kThreads = 128", True),
        ("vector_add.cu", "from_float(a + b", "from_float(a - b", False),  # the GPU's alone
    ],
    ids=["a comment", "a condition", "another launch", "a tile", "a kernel"],
)
def test_the_hash_of_the_host_code_is_of_what_launches_kernels(
    source: str, before: str, after: str, is_other_code: bool, checkout: Path
) -> None:
    build(checkout, "75")
    first = record(checkout)["vector_add/vector_add.cu"]["host_sha256"]
    path = checkout / "kernels/csrc/vector_add" / source
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    build(checkout, "75")
    assert (record(checkout)["vector_add/vector_add.cu"]["host_sha256"] != first) is is_other_code


def test_a_compile_error_stops_the_build_with_the_compilers_words(checkout: Path) -> None:
    source = checkout / "kernels/csrc/vector_add/vector_add_cpu.cpp"
    source.write_text(source.read_text() + "#error planted here\n")
    done = run(checkout, BUILD, WARPWATCH_CUDA_ARCHS="none")
    assert done.returncode != 0
    assert "planted here" in done.stdout
    assert "the kernels did not compile" in done.stderr
    assert not (checkout / "out/_C.abi3.so").exists()


SERIALIZED = """
#include "primitives/wgmma.cuh"
__global__ void serialized(float* out, int steps, float (*other)(float)) {
  __shared__ __align__(1024) unsigned char tile[16384];
  float c[2][4] = {};
  const uint32_t a[4] = {1, 2, 3, 4};
  warpwatch::wgmma_fence();
  for (int i = 0; i < steps; ++i) {
    const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    warpwatch::FloatWgmma<__half>::run(c, a, warpwatch::wgmma_rows(at));
    warpwatch::wgmma_commit();
    out[i] = other(c[0][0]);  // wants a register of C while the wgmma is under way
  }
}
"""


@needs_cuda
def test_a_kernel_whose_wgmmas_ptxas_serializes_stops_the_build(checkout: Path) -> None:
    source = checkout / "kernels/csrc/vector_add/serialized_sm90a.cu"
    source.write_text(SERIALIZED)
    for _ in range(2):  # the object that was compiled must not pass for built the next time
        done = run(checkout, BUILD, WARPWATCH_CUDA_ARCHS="90a")
        assert done.returncode != 0
        assert "wgmma" in done.stdout
        assert "refused: what the compiler says of kernels/csrc/vector_add/serialized_sm90a.cu" in done.stdout
        assert not (checkout / "out/_C.abi3.so").exists()


def test_without_a_cuda_compiler_the_build_warns_and_goes_on_for_the_cpu(checkout: Path) -> None:
    unfound = "import building.toolchain as toolchain; toolchain.find_cuda = lambda: None\nfrom building import build"
    done = run(checkout, BUILD.replace("from building import build", unfound), WARPWATCH_CUDA_ARCHS="75")
    assert done.returncode == 0, done.stderr
    assert "WARNING: no CUDA compiler" in done.stderr
    assert "pip install -r kernels/building/cuda_from_pip.txt" in done.stderr
    assert run(checkout, ADD).stdout.strip() == "[4.0, -3.0]"


def test_without_torch_there_is_nothing_to_build(checkout: Path) -> None:
    unfound = "import importlib.util; importlib.util.find_spec = lambda name: None\nfrom building import build"
    done = run(checkout, BUILD.replace("from building import build", unfound))
    assert done.stdout.strip() == "False"
    assert "the kernels are left out" in done.stderr
    assert not (checkout / "out").exists()
