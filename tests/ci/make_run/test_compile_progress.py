"""Progress of compilations: from the output and log of ninja, and from the file of the Triton compiler."""

import subprocess
from pathlib import Path

import pytest

from warpwatch.ci.make_run.build_progress import logged_count, printed_count, triton_count
from warpwatch.dashboard.web.measurement import Count
from warpwatch.kernels.building.toolchain import find_ninja

_BUILD = """builddir = build/kernels/90a
rule compile
  command = touch $out
rule fail
  command = false
build one.o: compile
build two.o: compile
build three.o: fail | two.o one.o
build four.o: compile | three.o
"""


def build(project: Path) -> str:
    """Compiles two of four, as the kernels are built in asv's checkout of a commit; returns what ninja prints."""
    folder = project / "build" / "kernels" / "90a"
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text(_BUILD)
    command = [*find_ninja(), "-f", "build/kernels/90a/build.ninja", "-j", "1"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout


def test_the_count_is_read_from_ninjas_output(tmp_path: Path) -> None:
    counts = [count for line in build(tmp_path).splitlines() if (count := printed_count(line))]
    assert counts[:2] == [Count(done=1, total=4), Count(done=2, total=4)]
    assert printed_count("[50.00%] ·· Building for virtualenv-py3.11") is None


def test_a_running_build_is_counted_by_its_log(tmp_path: Path) -> None:
    build(tmp_path / "hash" / "project")
    assert logged_count(tmp_path, since_s=0) == Count(done=2, total=4)


def test_an_earlier_build_does_not_count(tmp_path: Path) -> None:
    assert logged_count(tmp_path, since_s=0) is None
    build(tmp_path / "hash" / "project")
    (log,) = tmp_path.rglob(".ninja_log")
    assert logged_count(tmp_path, since_s=log.stat().st_mtime + 1) is None


@pytest.mark.parametrize(
    ("text", "count"), [("12 80\n", Count(done=12, total=80)), ("80 80\n", None), ("", None), ("12", None)]
)
def test_triton_compilations_are_counted_until_the_last(tmp_path: Path, text: str, count: Count | None) -> None:
    file = tmp_path / "hash" / "triton_progress.txt"
    file.parent.mkdir()
    file.write_text(text)
    assert triton_count(tmp_path, since_s=0) == count
    assert triton_count(tmp_path, since_s=file.stat().st_mtime + 1) is None


def test_without_triton_compilations_there_is_no_count(tmp_path: Path) -> None:
    assert triton_count(tmp_path, since_s=0) is None
