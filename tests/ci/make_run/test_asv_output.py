"""What asv printed in real runs, line by line: two commits of this project, and three of which one did not compile.

The first is without asv's tables. asv 0.6.6.
"""

from collections.abc import Iterator
from pathlib import Path

from warpwatch.ci.make_run.build_progress import AsvOutput
from warpwatch.dashboard.web.measurement import Count

RECORDED = Path(__file__).parent / "recorded"


def states(name: str) -> Iterator[tuple[str, AsvOutput]]:
    """Each line of a recorded run with the state after it."""
    output = AsvOutput()
    for line in (RECORDED / name).read_text().splitlines():
        output.read(line)
        yield line, output


def test_each_benchmark_of_each_commit_is_counted_once() -> None:
    seen: list[tuple[int | None, int]] = []
    for _, output in states("asv_two_commits.txt"):
        if output.measured and (not seen or seen[-1] != (output.commit, output.measured.done)):
            assert output.measured.total == 352
            seen.append((output.commit, output.measured.done))
    first, second = ([done for commit, done in seen if commit == number] for number in (1, 2))
    for counts in (first, second):
        assert (counts[0], counts[-1]) == (0, 352)
        assert counts == sorted(set(counts))
        assert len(counts) > 350


def test_building_and_measuring_are_distinguished() -> None:
    by_line = {}
    for line, output in states("asv_two_commits.txt"):
        by_line[line.rstrip()] = (output.commit, output.commits, output.is_building)
    assert by_line["·· Uninstalling from virtualenv-py3.11"] == (1, None, True)
    assert by_line["[ 0.00%] ·· Benchmarking virtualenv-py3.11"] == (1, 2, False)
    assert by_line["[50.00%] · For warpwatch commit 90b11b78 <main~3>:"] == (2, 2, True)
    assert by_line["[50.00%] ·· Building for virtualenv-py3.11"] == (2, 2, True)
    assert by_line["[50.00%] ·· Benchmarking virtualenv-py3.11"] == (2, 2, False)


def test_a_commit_that_does_not_compile_is_named() -> None:
    *_, (_, output) = states("asv_commit_that_does_not_compile.txt")
    assert output.not_built == ["1bbf8c69"]
    assert (output.commit, output.measured) == (3, Count(done=2, total=2))


def test_other_lines_change_nothing() -> None:
    output = AsvOutput()
    for line in ("", "make: Nothing to be done", "[43/112] cuda kernels/csrc/rope/rope.cu", "[12.00%] done"):
        output.read(line)
    assert output == AsvOutput()
