"""Warnings about a working tree that differs from the commits that are measured."""

import subprocess
from pathlib import Path

import pytest

from warpwatch.ci.asv_checkout import uncommitted_warnings


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of a program and its benchmarks."""
    folder = tmp_path / "checkout"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "kernel.py").write_text("fast = True\n")
    (folder / "benchmarks" / "bench.py").write_text("def time_it(): pass\n")
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "first"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_a_clean_checkout_warns_of_nothing(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("not tracked, and not measured either way")
    assert uncommitted_warnings(checkout, checkout / "benchmarks") == ()


def test_changed_code_is_not_measured_and_changed_benchmarks_are(checkout: Path) -> None:
    (checkout / "kernel.py").write_text("fast = False\n")
    (checkout / "benchmarks" / "bench.py").write_text("def time_it(): return 1\n")
    (checkout / "benchmarks" / "new.py").write_text("def time_more(): pass\n")
    code, benchmarks = uncommitted_warnings(checkout, checkout / "benchmarks")
    assert code == "Warning: uncommitted changes are not measured, only commits are: kernel.py"
    assert benchmarks.endswith("from the working tree: benchmarks/bench.py, benchmarks/new.py")


def test_a_folder_of_benchmarks_that_git_does_not_know_is_named(checkout: Path) -> None:
    (checkout / "perf" / "suite").mkdir(parents=True)
    (checkout / "perf" / "suite" / "bench.py").write_text("def time_it(): pass\n")
    (warning,) = uncommitted_warnings(checkout, checkout / "perf" / "suite")
    assert warning.endswith("working tree: perf/")


def test_a_folder_without_a_working_tree_warns_of_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "bare")], check=True)
    assert uncommitted_warnings(tmp_path / "bare", tmp_path) == ()
    assert uncommitted_warnings(tmp_path, tmp_path) == ()
