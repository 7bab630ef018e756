"""Accepted regressions: said in a message, a file or a command, shown with who and why, and never wider than said."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ci.judged_repository import JudgedRepository, judged_repository
from warpwatch.ci.acceptance.grammar import Wording, parse_wording
from warpwatch.ci.acceptance.sources import AcceptFileError, read_accept_file
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import acceptances, record_acceptances

SLOWER = {("rope.Rope.track_latency", "fp16"): 0.06, ("sum.Sum.track_latency", "fp16"): 0.3}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("rope* exact sines", Wording(pattern="rope*", reason="exact sines", at_most=None)),
        ("rope* <= 5 % exact sines", Wording(pattern="rope*", reason="exact sines", at_most=0.05)),
        ("rope <=2.5% exact", Wording(pattern="rope", reason="exact", at_most=0.025)),
        ('"*(a, b)" known', Wording(pattern="*(a, b)", reason="known", at_most=None)),
    ],
)
def test_a_line_says_what_how_much_and_why(line: str, wanted: Wording) -> None:
    assert parse_wording(line) == wanted


@pytest.mark.parametrize("line", ["", "rope*", "rope* <= 5 %", "rope* <= 5 too slow", '"*(a, b) known'])
def test_a_line_without_a_reason_accepts_nothing(line: str) -> None:
    with pytest.raises(ValueError, match="wanted <glob>"):
        parse_wording(line)


def test_a_message_cannot_end_itself_early_nor_write_to_a_terminal(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "odd \x1e\x1f signs\n\nAccept-Regression: * why \x1b[31m\x1enot")
    _, rows, notes = _rows(repository)
    assert notes == []
    assert rows["rope.Rope.track_latency"]["accepted"]["reason"] == "why \ufffd[31m\ufffdnot"


def _slower(root: Path, message: str) -> JudgedRepository:
    return judged_repository(root, database=f"sqlite:///{root / 'h.db'}", slower=SLOWER, message=message)


def _rows(repository: JudgedRepository, *words: str) -> tuple[int, dict[str, Any], list[str]]:
    done = repository.check("--format", "json", *words)
    told = json.loads(done.stdout)
    rows = {row["series"]["benchmark"]: row for row in told["rows"] if row["series"]["parameters"]["dtype"] == "fp16"}
    return done.returncode, rows, told["notes"]


def test_a_line_of_a_message_accepts_what_it_names_and_no_more(tmp_path: Path) -> None:
    repository = _slower(
        tmp_path,
        "exact sines\n\nAccept-Regression: rope* <= 10 % exact sines cost that\nand a line after it: no trailer to git",
    )
    code, rows, notes = _rows(repository)
    assert (code, notes) == (1, [])  # for the sum
    accepted = rows["rope.Rope.track_latency"]["accepted"]
    assert (accepted["by"], accepted["reason"]) == ("Ann Author", "exact sines cost that")
    assert accepted["source"] == f"commit {repository.head[:8]}"
    assert rows["sum.Sum.track_latency"]["accepted"] is None
    shown = repository.check("--format", "markdown").stdout
    assert f"accepted by Ann Author (commit {repository.head[:8]}): exact sines cost that" in shown
    assert "2 regressed (1 accepted)" in shown
    assert (
        f"accepted by Ann Author (commit {repository.head[:8]}): exact sines cost that\n" in repository.check().stdout
    )


def test_what_accepts_nothing_is_told(tmp_path: Path) -> None:
    repository = _slower(
        tmp_path,
        "slower\n\nAccept-Regression: roep* a slip\nAccept-Regression: rope <= 2 % too little\n"
        "accept-regression: sum\nAccept-Regression: *fp32* nothing there",
    )
    code, rows, notes = _rows(repository)
    assert code == 1
    assert not any(row["accepted"] for row in rows.values())
    told = " ".join(notes)
    assert "“roep*”, accepted by Ann Author (commit " in told
    assert "names no series here: nothing is accepted by it" in told
    assert "“rope”" in told
    assert re.search(r"\+[56]\.\d % is more than the 2 % accepted", told)
    assert "accepts nothing: wanted <glob> [<= 5 %] <reason>" in told
    assert "of what it names nothing regressed" in told


def test_a_command_accepts_for_two_commits_alone_and_is_kept_with_who_and_why(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "slower")
    for glob in ("rope", "sum"):
        done = repository.warpwatch(
            "policy", "accept", repository.base, repository.head, glob, "as", "agreed", "--by", "Bea"
        )
        assert done.returncode == 0, done.stderr
    done = repository.check()
    assert done.returncode == 0
    assert "all regressions accepted" in done.stdout
    assert "2 regressed (2 accepted)" in done.stdout
    earlier = f"{repository.base}~1"
    assert repository.warpwatch("check", earlier, repository.head).returncode == 1  # another range
    absent = repository.warpwatch("policy", "accept", repository.base, repository.head, "time_sort", "known")
    assert absent.returncode == 2
    assert "“time_sort” names no series of demo, so there is nothing to accept" in absent.stderr
    wrong = repository.warpwatch("policy", "accept", repository.base, repository.head, "rope")
    assert (wrong.returncode, "wanted <glob>" in wrong.stderr) == (2, True)
    store = Store(repository.database)
    kept = acceptances(store, "demo", repository.base, repository.head)
    store.close()
    assert [(each.pattern, each.by, each.reason) for each in kept] == [
        ("rope", "Bea", "as agreed"),
        ("sum", "Bea", "as agreed"),
    ]
    assert (datetime.now(UTC) - kept[0].at).total_seconds() < 3600


def test_what_counted_up_to_an_earlier_head_is_told_where_it_would_cover_what_blocks(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "slower")
    store = Store(repository.database)
    said = [
        Acceptance(pattern=glob, reason="agreed", by="Bea", at=datetime.now(UTC), source="comment 7", at_most=at_most)
        for glob, at_most in (("rope", None), ("sum", 0.01), ("norm", None))
    ]
    record_acceptances(store, "demo", repository.base, "e" * 40, said, now_ms=1)
    record_acceptances(store, "demo", "d" * 40, repository.head, said, now_ms=1)  # of another base: something else
    store.close()
    code, _, notes = _rows(repository)
    assert code == 1
    (note,) = notes
    assert note.startswith("“rope”, accepted by Bea (comment 7), counted until eeeeeeee; it has expired")
    done = repository.warpwatch("policy", "accept", repository.base, repository.head, "*", "still", "--by", "Bea")
    assert done.returncode == 0
    assert not any("expired" in each for each in _rows(repository)[2])


def test_replies_come_in_a_file_for_one_range(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "slower")
    said = {"pattern": "*", "reason": "release first", "by": "bea", "at": "2026-11-22T10:00:00Z", "source": "comment 7"}
    path = tmp_path / "replies.json"
    path.write_text(json.dumps({"base": repository.base, "head": repository.head, "accepted": [said]}))
    code, rows, notes = _rows(repository, "--accept", str(path))
    assert (code, notes) == (0, [])
    assert {row["accepted"]["source"] for row in rows.values() if row["verdict"] == "regressed"} == {"comment 7"}
    path.write_text(json.dumps({"base": repository.base, "head": "f" * 40, "accepted": [said]}))
    code, rows, notes = _rows(repository, "--accept", str(path))
    assert code == 1
    assert "none of it counts" in notes[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"base": "main", "head": "f" * 40, "accepted": []}, "base: String should match pattern"),
        ({"base": "e" * 40, "head": "f" * 40, "accepted": [{"pattern": "a"}]}, "accepted.0.at: Field required"),
        ({"base": "e" * 40, "head": "f" * 40, "accept": []}, "accept: Extra inputs are not permitted"),
    ],
)
def test_a_file_that_is_none_says_where(content: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(content))
    with pytest.raises(AcceptFileError) as told:
        read_accept_file(path, "e" * 40, "f" * 40)
    assert said in str(told.value)
