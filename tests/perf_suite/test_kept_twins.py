"""Facts of twins that were compiled before: real compilations of a small checkout, edited in between."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perf_suite.compiled.twins.compiled_twin import CompiledTwin, keep, kept
from warpbench.compiled.cuda_binaries import NoToolsError, find_tools
from warpbench.compiled.machine_code import KernelCode

ROOT = Path(__file__).resolve().parents[2]
COMPILE = """
import sys
sys.path[:0] = ["."]
from dataclasses import astuple
from perf_suite.compiled.twins import compile_twins
print([astuple(twin) for twin in compile_twins([("_rope", "sm_90a")]).compiled])
assert "torch" not in sys.modules
"""
DIGESTS = """
import sys
sys.path[:0] = ["."]
from perf_suite.compiled.twins.facts_digest import facts_digests
print({function: digest for (function, _), digest in
       facts_digests([(function, "sm_90a") for function in sys.argv[1:]], {"triton": "3.6.0"}).items()})
"""
WARPBENCH = "perf_suite/warpbench/src/warpbench"
ROPE, INT4_LINEAR, ATTENTION = TWINS = ("_rope", "_int4_linear", "_flash_attention")
TWIN = CompiledTwin(
    code=KernelCode(
        kernel="_rope",
        architecture="sm_90a",
        instantiations=1,
        registers=32,
        stack_bytes=0,
        shared_bytes=0,
        dynamic_shared_bytes=None,
        threads_per_block=128,
        barriers=0,
        occupancy=1 / 3,
        occupancy_limit="registers",
        local_memory_instructions=0,
        local_memory_bytes=0,
        code_bytes=32,
        instructions={"total": 2, "LDG.128": 1},
        sha256="5a",
    ),
    compile_s=0.1 + 0.2,
)


def copied_to(folder):
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "csrc", "results", "trials")
    shutil.copytree(ROOT / "kernels", folder / "warpwatch/kernels", ignore=ignored)
    shutil.copytree(ROOT / "perf_suite", folder / "perf_suite", ignore=ignored)
    return folder


@pytest.fixture
def checkout(tmp_path):
    """The twins and the suite of this commit, to be edited."""
    return copied_to(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """The digests of this commit's twins."""
    return reported_by(copied_to(tmp_path_factory.mktemp("unchanged")), DIGESTS, *TWINS)


def reported_by(checkout, program, *arguments, **environment):
    warpbench = str(checkout / "perf_suite/warpbench/src")
    inherited = {
        name: value for name, value in os.environ.items() if name != "WARPBENCH_BENCHMARKS"
    }  # of this checkout
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=checkout,
        env={**inherited, "XDG_CACHE_HOME": str(checkout / "cache"), "PYTHONPATH": warpbench, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def edit(file, before, after):
    assert file.read_text().count(before) == 1
    file.write_text(file.read_text().replace(before, after))


def test_a_twin_is_compiled_again_when_its_code_changed_and_only_then(checkout):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    try:
        find_tools()
    except NoToolsError as error:
        pytest.skip(str(error))
    cache = checkout / "cache/warpwatch/twins"
    twin = checkout / "warpwatch/kernels/triton/rope.py"
    with (checkout / "perf_suite/benchmarks/rope.py").open("a") as benchmark:
        benchmark.write("Rope.cases = Rope.cases[:1]\n")  # one configuration to compile, three times
    first = reported_by(checkout, COMPILE, ASV_ENV_DIR=str(checkout))
    assert (checkout / "triton_progress.txt").read_text() == "1 1\n"
    (facts,) = cache.glob("*.facts")

    # What a compiler would find and leave is out of the way: it would leave something again.
    written = facts.read_bytes()
    shutil.rmtree(cache)
    cache.mkdir()
    facts.write_bytes(written)
    edit(twin, "out = x.new_empty(x.shape)\n", "out = x.new_empty(x.shape)  # a word more\n")
    assert reported_by(checkout, COMPILE) == first
    assert list(cache.iterdir()) == [facts]

    facts.write_bytes(written[:-9])
    ((_, seconds),) = reported_by(checkout, COMPILE)
    assert list(cache.iterdir()) != [facts]
    assert facts.read_bytes() != written[:-9]
    assert reported_by(checkout, COMPILE)[0][1] == seconds

    edit(twin, "tl.program_id(0)", "(tl.program_id(0) + 1)")
    ((changed, _),) = reported_by(checkout, COMPILE)
    assert changed != first[0][0]
    assert len(list(cache.glob("*.facts"))) == 2


@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("warpwatch/kernels/triton/rope.py", '"""out.a', '"""Better words. out.a', set()),
        ("warpwatch/kernels/triton/rope.py", "tl.program_id(0)", "tl.program_id(1)", {ROPE}),
        ("warpwatch/kernels/triton/rope.py", "    return ", "    return 0 or ", {ROPE}),
        ("warpwatch/kernels/operators/_devices.py", "raise RuntimeError", "raise ValueError", set(TWINS)),
        ("perf_suite/benchmarks/rope.py", "heads=12", "heads=24", {ROPE}),
        ("perf_suite/benchmarks/int4_linear.py", "def call_of(", "def call_of_(", {INT4_LINEAR}),
        (f"{WARPBENCH}/compiled/occupancy.py", "_REGISTER_UNIT = 256", "_REGISTER_UNIT = 128", set(TWINS)),
        ("perf_suite/compiled/twins/under_triton/pretended_gpu.py", '"NVIDIA H200"', '"NVIDIA H100"', set(TWINS)),
        (f"{WARPBENCH}/session.py", "from .ahead import", "from .behind import", set()),
    ],
)
def test_the_digest_covers_what_the_facts_depend_on(checkout, unchanged, file, before, after, changed):
    assert len(set(unchanged.values())) == len(TWINS)
    path = checkout / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    now = reported_by(checkout, DIGESTS, *TWINS)
    assert {twin for twin in TWINS if now[twin] != unchanged[twin]} == changed


def test_the_digest_covers_software_architecture_and_tritons_settings(checkout, unchanged):
    was = {ROPE: unchanged[ROPE]}
    assert reported_by(checkout, DIGESTS.replace("3.6.0", "3.7.0"), ROPE) != was
    assert reported_by(checkout, DIGESTS.replace("sm_90a", "sm_86"), ROPE) != was
    assert reported_by(checkout, DIGESTS, ROPE, TRITON_PTXAS_PATH="/opt/ptxas") != was
    assert reported_by(checkout, DIGESTS, ROPE, TRITON_CACHE_DIR="/tmp/elsewhere", TRITON_INTERPRET="1") == was
    assert reported_by(checkout, DIGESTS, "_unheard_of") == {}


def test_a_commit_without_the_twin_has_no_digest(checkout):
    (checkout / "warpwatch/kernels/triton/rope.py").unlink()
    assert reported_by(checkout, DIGESTS, *TWINS).keys() == {INT4_LINEAR, ATTENTION}


def test_what_was_kept_is_read_back_exactly(tmp_path):
    keep(TWIN, tmp_path / "new", "a")
    assert kept(tmp_path / "new", "a") == TWIN
    assert kept(tmp_path / "new", "b") is None
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".facts"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda written: b"",
        lambda written: written[: len(written) // 2],
        lambda written: written.replace(b'"registers": 32', b'"registers": 31'),
        lambda written: b"\xff\x00" + written,
        lambda written: b'{"registers": 32}\n',
        lambda written: written * 2,
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_ignored_and_written_again(tmp_path, spoil):
    keep(TWIN, tmp_path, "a")
    (file,) = tmp_path.iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    assert kept(tmp_path, "a") is None
    keep(TWIN, tmp_path, "a")
    assert kept(tmp_path, "a") == TWIN


def test_the_facts_of_another_digest_are_not_taken(tmp_path):
    keep(TWIN, tmp_path, "a")
    (tmp_path / "a.facts").rename(tmp_path / "b.facts")
    assert kept(tmp_path, "b") is None
