"""`warpwatch changepoints` as it is run: real processes with pipes."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from warpwatch.dashboard.statistics.changepoint import changepoints

COMMAND = [
    sys.executable, "-c",
    "from warpwatch.dashboard.changepoints_filter import changepoints_command; changepoints_command()",
]  # fmt: skip
STEPPED = [1.0, 1.01, 0.99, 1.02, 0.98] * 6 + [1.5, 1.51, 1.49, 1.52, 1.48] * 6


def _filter(lines: Sequence[str], *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *options], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_each_series_is_answered_with_what_the_detector_finds() -> None:
    done = _filter([json.dumps(STEPPED), json.dumps([1.0] * 40)])
    assert (done.returncode, done.stderr) == (0, "")
    stepped, constant = map(json.loads, done.stdout.splitlines())
    (found,) = changepoints(STEPPED)
    assert [change["index"] for change in stepped] == [30]
    assert stepped[0]["magnitude"] == found.magnitude == pytest.approx(0.5)
    assert stepped[0]["low"] < 0.5 < stepped[0]["high"]
    assert constant == []


def test_the_index_counts_the_missing_values_of_the_input() -> None:
    gaps = [None, *STEPPED[:10], None, None, *STEPPED[10:30], None, *STEPPED[30:], None]
    (change,) = json.loads(_filter([json.dumps(gaps)]).stdout)
    assert gaps[change["index"]] == STEPPED[30]
    assert change["index"] == 34
    assert _filter([json.dumps(gaps).replace("null", "NaN")]).stdout == _filter([json.dumps(gaps)]).stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_line_k_answers_line_k_whatever_stands_in_the_others(jobs: str) -> None:
    series = json.dumps(STEPPED)
    bad = ['{"values": [1]}', '[1, "x"]', "[1, true]", "[1, 2", "[1, 1e999]", "7", "[" * 100_000]
    done = _filter([bad[0], series, "", *bad[1:], series, "[]", "[null]"], "--jobs", jobs)
    assert done.returncode == 3
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer and answer[0]["index"] for answer in answers] == [None, 30, [], *[None] * 6, 30, [], []]
    told = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in told] == ["line 1", *[f"line {n}" for n in range(4, 10)]]
    assert "a JSON object; wanted a list of numbers" in told[0]
    assert "a string at place 1" in told[1]
    assert "finite" in told[4]


def test_several_processes_say_what_one_says_in_the_same_order() -> None:
    lines = [json.dumps(STEPPED[shift:] + [1.49] * shift) for shift in range(20)]
    one, two = _filter(lines), _filter(lines, "--jobs", "2")
    assert one.stdout == two.stdout
    assert [json.loads(line)[0]["index"] for line in one.stdout.splitlines()] == [30 - shift for shift in range(20)]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_answer_waits_neither_for_the_next_line_nor_for_the_end(jobs: str) -> None:
    with subprocess.Popen([*COMMAND, "--jobs", jobs], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for values in (STEPPED, [1.0]):
            process.stdin.write(json.dumps(values).encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"[")  # or the test hangs until its limit
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_reader_that_leaves_ends_it_without_a_traceback(jobs: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "--jobs", jobs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"[1.0]\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"[]\n"
        process.stdout.close()
        process.stdin.write(b"[1.0]\n[1.0]\n")
        process.stdin.flush()  # and stdin stays open: the next line is still waited for
        assert process.wait(timeout=60) == 1
        assert process.stderr.read() == b""


def test_only_steps_are_told_unless_all_kinds_are_asked_for() -> None:
    series = [*STEPPED, *STEPPED[-5:] * 4]
    series[70:72] = [3.0, 3.1]
    gaps = json.dumps([None, *series])
    (step,) = json.loads(_filter([gaps]).stdout)
    assert (step["index"], step["kind"]) == (31, "step")
    told = json.loads(_filter([gaps], "--all-kinds").stdout)
    assert [(each["index"], each["last"], each["kind"]) for each in told] == [(31, 31, "step"), (71, 72, "transient")]
    assert [place for place, _ in step["posterior"]] == [31]
    assert step["chance"] < 1e-6
