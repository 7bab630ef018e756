"""`warpbench profile`: what it says where it cannot, and where a profile is kept."""

import subprocess
import sys
from pathlib import Path

import pytest

from warpbench.profiling import result_file
from warpbench.profiling.result_file import NoResultFileError, ResultFile
from warpbench.profiling.watched_call import ProfilerError, find_tool
from warpbench.records import Cpu, ProfiledKernel, ProfileRecord, RunRecord, from_line, to_line

from .warpbench_command import run_warpbench

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
ROPE = "rope/cuda-fp16-b1-h8-s2048-d128"
COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40


def run_of(name, commit="", environment=""):
    return RunRecord(
        run=name * 32,
        commit=commit,
        environment=environment,
        started_at="2026-01-02T03:04:05+00:00",
        device="cuda",
        gpu=None,
        cpu=Cpu(model="EPYC", cores=2, threads=2),
        software={},
        ceilings=None,
    )


def profile_of(run):
    kernel = ProfiledKernel(
        name="rope_pieces",
        signature="void rope_pieces<__half2>(RopeParams)",
        duration_s=6.6e-5,
        dram_bytes=2.4e8,
        l2_bytes=None,
        l1_bytes=None,
        occupancy=0.3,
        tensor_pipe=None,
        stalls={"long_scoreboard": 15.0},
        counters={"launch__registers_per_thread": 76.0},
    )
    return ProfileRecord(
        run=run.run,
        benchmark="benchmarks.rope.Rope",
        operator="rope",
        workload="cuda-fp16-b8-h32-s2048-d128",
        implementation="warpwatch",
        profiler="Nsight Compute 2025.3.1",
        cache="cold",
        dram_bytes=2.4e8,
        kernels=(kernel,),
    )


def profile(*arguments, path=None):
    """The command, with `path` for PATH."""
    return run_warpbench("profile", *arguments, folder=ROOT, environment={"PATH": str(path)} if path else None)


def installed(name):
    try:
        return find_tool(name)
    except ProfilerError:
        return None


def stand_in(folder, script):
    """A program named ncu, for what the real one says where it may not look or has nothing to look at."""
    program = folder / "ncu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


# --- where nothing can be profiled ------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["ncu", "nsys"])
def test_a_missing_profiler_is_named_with_where_it_was_sought_and_where_it_comes_from(tool, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProfilerError, match=r"neither on PATH nor in /usr/local/cuda.*https://developer\.nvidia\.com/"):
        find_tool(tool, root=tmp_path)


def test_the_newest_of_several_installations_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for version in ("2024.3.2", "2025.10.0", "2025.3.1"):
        folder = tmp_path / "opt/nvidia/nsight-compute" / version
        folder.mkdir(parents=True)
        (folder / "ncu").touch()
    assert find_tool("ncu", root=tmp_path).parent.name == "2025.10.0"


@pytest.mark.skipif(installed("ncu") is not None, reason="Nsight Compute is installed here")
def test_without_nsight_compute_the_command_ends_with_a_sentence(tmp_path):
    done = profile(ROPE, path=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("profile: Nsight Compute (ncu) is neither on PATH")
    assert done.stdout == ""


@pytest.mark.skipif(installed("nsys") is not None, reason="Nsight Systems is installed here")
def test_without_nsight_systems_the_command_ends_with_a_sentence(tmp_path):
    done = profile(ROPE, "--nsys", path=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("profile: Nsight Systems (nsys) is neither on PATH")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rope/cpu-fp32-b1-h8-s256-d128"], "runs on the CPU, and NVIDIA's profilers watch GPUs"),
        (["rope/cuda-fp16-b8-h32-s204-d128"], "did you mean cuda-fp16-b8-h32-s2048-d128?"),
        (["ropes"], "no operator 'ropes' (did you mean 'rope'?); there are decode_attention"),
        ([ROPE, "-i", "sdpa"], "has no implementation sdpa; it has warpwatch"),
    ],
)
def test_what_is_not_in_the_catalogue_for_the_gpu_is_refused_with_what_there_is(arguments, sentence):
    done = profile(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_counters_that_may_not_be_read_come_with_the_way_to_allow_it(tmp_path):
    refusal = (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0."
    )
    done = profile(ROPE, path=stand_in(tmp_path, f"echo '{refusal}'; exit 1"))
    assert done.returncode == 2
    assert "NVreg_RestrictProfilingToAdminUsers=0" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="the call would be made here")
def test_a_call_that_cannot_be_made_is_reported_with_its_reason_and_the_next_one_is_tried(tmp_path):
    path = stand_in(tmp_path, f'while [ "$1" != "{sys.executable}" ]; do shift; done; exec "$@"')
    done = profile(ROPE, "-i", "warpwatch", "-i", "eager", path=path)
    assert done.returncode == 1, done.stderr
    for implementation in ("warpwatch", "eager"):
        assert f"{ROPE} {implementation} not profiled: {ROPE[5:]} runs on cuda" in " ".join(done.stdout.split())


def test_a_process_that_dies_under_the_profiler_is_reported_with_its_last_lines(tmp_path):
    done = profile(ROPE, "-i", "eager", path=stand_in(tmp_path, "echo 'libcuda.so is missing'; exit 9"))
    assert done.returncode == 1
    assert "ended before its calls were made: libcuda.so is missing" in " ".join(done.stdout.split())


# --- where a profile is kept ------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    """asv's results of one commit on one machine."""
    folder = tmp_path / "results/h200"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text("{}")
    (folder / f"{COMMIT[:8]}-virtualenv-py3.12.json").write_text(
        f'{{"commit_hash": "{COMMIT}", "env_name": "virtualenv-py3.12", "results": {{"a": [NaN]}}}}'
    )
    return folder.parent


def test_a_profile_is_stored_with_the_results_of_the_newest_commit_with_these_kernels(results):
    file = result_file.of_results([OTHER_COMMIT, COMMIT], results)
    assert file.path == results / f"h200/{COMMIT[:8]}-virtualenv-py3.12.context.jsonl"
    assert (file.commit, file.environment) == (COMMIT, "virtualenv-py3.12")


def test_without_results_of_these_kernels_or_with_several_a_file_must_be_named(results):
    with pytest.raises(NoResultFileError, match=r"no results of the installed kernels \(bbbbbbbb\).*asv run"):
        result_file.of_results([OTHER_COMMIT], results)
    (results / f"h200/{COMMIT[:8]}-existing-py.json").write_text("{}")
    with pytest.raises(NoResultFileError, match="several results of aaaaaaaa; choose with --into"):
        result_file.of_results([COMMIT], results)


def test_what_is_appended_reads_back_with_the_commit_and_environment_of_the_file(tmp_path):
    path = tmp_path / "new/aaaaaaaa-py.context.jsonl"
    file = ResultFile(path=path, commit=COMMIT, environment="py")
    for name in ("1", "2"):
        result_file.append(file, run_of(name), [profile_of(run_of(name))])
    records = [from_line(line) for line in path.read_text().splitlines()]
    assert records == [
        run_of("1", COMMIT, "py"),
        profile_of(run_of("1")),
        run_of("2", COMMIT, "py"),
        profile_of(run_of("2")),
    ]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_named_file_keeps_its_commit_and_refuses_other_kernels(tmp_path):
    path = tmp_path / "profile.context.jsonl"
    assert result_file.named(path, [COMMIT]) == ResultFile(path=path, commit=COMMIT, environment="")
    path.write_text(to_line(run_of("1", COMMIT, "py")) + "\n")
    kept = ResultFile(path=path, commit=COMMIT, environment="py")
    assert result_file.named(path, [OTHER_COMMIT, COMMIT]) == kept
    assert result_file.named(path, []) == kept
    with pytest.raises(NoResultFileError, match="holds results of aaaaaaaa, whose kernels are not those installed"):
        result_file.named(path, [OTHER_COMMIT])


@pytest.fixture
def checkout(tmp_path):
    """A repository with two commits, of which the newer changes no kernel."""

    def git(*arguments):
        command = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").touch()
    git("init", "--quiet")
    for file in ("kernels", "."):
        (tmp_path / "README.md").write_text(file)
        git("add", file)
        git("commit", "--quiet", "-m", file)
    return tmp_path, git


def test_the_installed_kernels_are_those_of_every_commit_since_they_changed(checkout):
    folder, git = checkout
    commits = result_file.checkout_commits(folder, folder / "benchmarks")
    assert commits == (git("rev-parse", "HEAD"), git("rev-parse", "HEAD~1"))


def test_changed_kernels_and_a_folder_without_a_checkout_are_of_no_commit(checkout, tmp_path_factory):
    folder, _ = checkout
    with pytest.raises(NoResultFileError, match="is no checkout of a commit"):
        result_file.checkout_commits(tmp_path_factory.mktemp("plain"), folder / "benchmarks")
    (folder / "kernels/__init__.py").write_text("changed")
    with pytest.raises(NoResultFileError, match="uncommitted changes"):
        result_file.checkout_commits(folder, folder / "benchmarks")


# --- on a GPU ---------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.skipif(installed("ncu") is None, reason="Nsight Compute is not installed")
def test_rope_by_pytorch_moves_more_than_its_least_bytes_and_the_file_says_so(tmp_path):
    file = tmp_path / "profile.context.jsonl"
    done = profile(ROPE, "-i", "eager", "--into", str(file))
    if "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this user may not read the GPU's performance counters")
    assert done.returncode == 0, done.stdout + done.stderr
    run, record = (from_line(line) for line in file.read_text().splitlines())
    assert run.gpu.name == torch.cuda.get_device_name()
    assert (record.run, record.operator, record.implementation) == (run.run, "rope", "eager")
    assert len(record.kernels) > 1
    least = 2 * 8 * 2048 * 128 * 2  # x read, out written
    assert record.dram_bytes > least
    for kernel in record.kernels:
        assert kernel.duration_s > 0
        assert 0 < kernel.occupancy <= 1
        assert kernel.stalls
