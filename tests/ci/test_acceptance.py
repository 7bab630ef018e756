"""Acceptances from messages, files and commands: their author, reason and exact coverage."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ci.judged_repository import JudgedRepository, judged_repository
from warpwatch.ci.acceptance import AcceptanceLine, parse_acceptance
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.store import Store
from warpwatch.dashboard.store.policy import acceptances, record_acceptances

SLOWER = {("rope.Rope.track_latency", "fp16"): 0.06, ("sum.Sum.track_latency", "fp16"): 0.3}


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("rope* exact sines", AcceptanceLine(pattern="rope*", reason="exact sines", at_most=None)),
        ("rope* <= 5 % exact sines", AcceptanceLine(pattern="rope*", reason="exact sines", at_most=0.05)),
        ("rope <=2.5% exact", AcceptanceLine(pattern="rope", reason="exact", at_most=0.025)),
        ('"*(a, b)" known', AcceptanceLine(pattern="*(a, b)", reason="known", at_most=None)),
    ],
)
def test_a_line_has_a_pattern_a_bound_and_a_reason(line: str, parsed: AcceptanceLine) -> None:
    assert parse_acceptance(line) == parsed


@pytest.mark.parametrize("line", ["", "rope*", "rope* <= 5 %", "rope* <= 5 too slow", '"*(a, b) known'])
def test_a_line_without_a_reason_is_invalid(line: str) -> None:
    with pytest.raises(ValueError, match="expected <glob>"):
        parse_acceptance(line)


def test_control_characters_of_a_message_are_replaced(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "odd \x1e\x1f signs\n\nAccept-Regression: * why \x1b[31m\x1enot")
    _, rows, notes = _rows(repository)
    assert notes == []
    assert rows["rope.Rope.track_latency"]["accepted"]["reason"] == "why \ufffd[31m\ufffdnot"


def _slower(root: Path, message: str) -> JudgedRepository:
    return judged_repository(root, database=f"sqlite:///{root / 'h.db'}", slower=SLOWER, message=message)


def _rows(repository: JudgedRepository, *words: str) -> tuple[int, dict[str, Any], list[str]]:
    done = repository.check("--format", "json", *words)
    comparison = json.loads(done.stdout)
    rows = [row for row in comparison["rows"] if row["series"]["parameters"]["dtype"] == "fp16"]
    return done.returncode, {row["series"]["benchmark"]: row for row in rows}, comparison["notes"]


def test_a_line_of_a_message_accepts_only_matching_series(tmp_path: Path) -> None:
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


def test_an_acceptance_that_covers_nothing_is_noted(tmp_path: Path) -> None:
    repository = _slower(
        tmp_path,
        "slower\n\nAccept-Regression: roep* a slip\nAccept-Regression: rope <= 2 % too little\n"
        "accept-regression: sum\nAccept-Regression: *fp32* nothing there",
    )
    code, rows, notes = _rows(repository)
    assert code == 1
    assert not any(row["accepted"] for row in rows.values())
    text = " ".join(notes)
    assert "“roep*”, accepted by Ann Author (commit " in text
    assert "matches no series" in text
    assert "“rope”" in text
    assert re.search(r"\+[56]\.\d % is more than the 2 % accepted", text)
    assert "is invalid: expected <glob> [<= 5 %] <reason>" in text
    assert "none of its series regressed" in text


def test_a_command_accepts_for_two_commits_only_and_stores_author_and_reason(tmp_path: Path) -> None:
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
    assert "“time_sort” matches no series of demo" in absent.stderr
    wrong = repository.warpwatch("policy", "accept", repository.base, repository.head, "rope")
    assert (wrong.returncode, "expected <glob>" in wrong.stderr) == (2, True)
    store = Store(repository.database)
    stored = acceptances(store, "demo", repository.base, repository.head)
    store.close()
    assert [(each.pattern, each.by, each.reason) for each in stored] == [
        ("rope", "Bea", "as agreed"),
        ("sum", "Bea", "as agreed"),
    ]
    assert (datetime.now(UTC) - stored[0].at).total_seconds() < 3600


def test_an_expired_acceptance_is_noted_if_it_would_cover_a_blocking_row(tmp_path: Path) -> None:
    repository = _slower(tmp_path, "slower")
    store = Store(repository.database)
    accepted = [
        Acceptance(pattern=glob, reason="agreed", by="Bea", at=datetime.now(UTC), source="comment 7", at_most=at_most)
        for glob, at_most in (("rope", None), ("sum", 0.01), ("norm", None))
    ]
    record_acceptances(store, "demo", repository.base, "e" * 40, accepted, now_ms=1)
    record_acceptances(store, "demo", "d" * 40, repository.head, accepted, now_ms=1)  # of another base
    store.close()
    code, _, notes = _rows(repository)
    assert code == 1
    (note,) = notes
    assert note.startswith("“rope”, accepted by Bea (comment 7), has expired: it counted until eeeeeeee")
    done = repository.warpwatch("policy", "accept", repository.base, repository.head, "*", "still", "--by", "Bea")
    assert done.returncode == 0
    assert not any("expired" in each for each in _rows(repository)[2])
