"""Regressions accepted in replies: by whom, of which head, and what of it an artefact says then."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.ci.forges.conftest import Forge
from tests.ci.reports.examples import BASE, FULL, HEAD, artefact, row
from warpwatch.ci.acceptance.sources import read_accept_file
from warpwatch.ci.forges.replies import accept_file, replies_of
from warpwatch.ci.forges.sticky_comment import put_comment
from warpwatch.ci.reports.comment import markdown
from warpwatch.ci.reports.reply_acceptances import with_replies
from warpwatch.ci.reports.report_links import Links
from warpwatch.dashboard.model.comparison import Acceptance, Outcome
from warpwatch.dashboard.model.verdict import Verdict

LATER = datetime.now(UTC) + timedelta(hours=1)
NEWER = "c" * 40


@pytest.fixture
def reported(forge: Forge) -> Forge:
    """A pull request with a report of its head; ann may write."""
    forge.talk.writers = frozenset({"ann"})
    put_comment(forge.thread(), "gate", HEAD, "regressed")
    return forge


def _replies(forge: Forge, head: str = HEAD) -> tuple[list[Acceptance], list[str]]:
    found = replies_of(forge.thread(), "gate", head)
    return list(found.accepted), list(found.refused)


def test_the_word_of_who_may_write_counts(reported: Forge, tmp_path: Path) -> None:
    number = reported.talk.say("ann", "Fine.\r\n/warpwatch accept rope* <= 5 % twice as exact\r\n", LATER)
    reported.talk.say("ann", "/warpwatch accept *attention* worth it", LATER)
    (first, second), refused = _replies(reported)
    assert (first.pattern, first.reason, first.by, first.at_most) == ("rope*", "twice as exact", "ann", 0.05)
    assert first.source == f"comment {number}"
    assert (second.pattern, second.reason, second.at_most) == ("*attention*", "worth it", None)
    assert refused == []
    (tmp_path / "accept.json").write_text(accept_file(BASE, HEAD, [first, second]))
    assert read_accept_file(tmp_path / "accept.json", BASE, HEAD) == ((first, second), ())


@pytest.mark.parametrize("said", ["* <= 0 % fine", "*", "", "rope* <= 5 %", "g" * 300 + " fine"])
def test_what_says_too_little_is_told_what_is_wanted(reported: Forge, said: str) -> None:
    reported.talk.say("ann", f"/warpwatch accept {said}", LATER)
    found, (refused,) = _replies(reported)
    assert found == []
    assert "expected /warpwatch accept <glob>" in refused


@pytest.mark.parametrize("who", ["bob", "stranger"])
def test_the_word_of_others_does_not(reported: Forge, who: str) -> None:
    reported.talk.say(who, "/warpwatch accept * please", LATER)
    found, (refused,) = _replies(reported)
    assert found == []
    assert f"{who} (comment" in refused
    assert "may not write" in refused


def test_what_was_said_of_an_earlier_head_does_not(reported: Forge) -> None:
    reported.talk.say("ann", "/warpwatch accept * fine", datetime.now(UTC) - timedelta(days=1))
    reported.talk.head = NEWER
    put_comment(reported.thread(), "gate", NEWER, "regressed by far more")
    found, (refused,) = _replies(reported, NEWER)
    assert found == []
    assert "before cccccccc was reported" in refused


def test_what_has_expired_is_told_where_it_would_have_covered_what_blocks(reported: Forge) -> None:
    for who, said in (("ann", "rope* <= 50 % exact"), ("ann", "attention* exact"), ("bob", "* please"), ("ann", "*")):
        reported.talk.say(who, f"/warpwatch accept {said}", datetime.now(UTC) - timedelta(days=1))
    reported.talk.head = NEWER
    put_comment(reported.thread(), "gate", NEWER, "regressed again")
    found = replies_of(reported.thread(), "gate", NEWER)
    assert [each.pattern for each in found.expired] == ["rope*", "attention*"]
    told = with_replies(artefact(row(1, Verdict.REGRESSED)), found.accepted, found.expired)
    assert told.is_blocking
    (note,) = told.notes
    assert note.startswith("rope*, accepted by ann (comment ")
    assert "has expired: say it of this commit too" in note
    assert "has expired" in markdown([told], Links(dashboard=None))
    assert with_replies(artefact(row(1, Verdict.UNCHANGED)), (), found.expired).notes == ()


def test_a_report_that_changes_keeps_what_was_said_of_its_head(reported: Forge) -> None:
    reported.talk.say("ann", "/warpwatch accept * fine", LATER)
    put_comment(reported.thread(), "gate", HEAD, "accepted")
    found, refused = _replies(reported)
    assert (len(found), refused) == (1, [])


@pytest.mark.parametrize(
    "text",
    [
        "please /warpwatch accept * fine",
        "> /warpwatch accept * fine",
        "```\n/warpwatch accept * fine\n```",
        "~~~\n/warpwatch accept * fine",
        "/warpwatch accepted * fine",
    ],
)
def test_what_is_quoted_or_shown_is_no_command(reported: Forge, text: str) -> None:
    reported.talk.say("ann", text, LATER)
    assert _replies(reported) == ([], [])


def _reply(pattern: str, at_most: float | None = None) -> Acceptance:
    return Acceptance(pattern=pattern, reason="fine", by="ann", at=LATER, source="comment 1", at_most=at_most)


@pytest.mark.parametrize("pattern", ["rope", "benchmarks.rope.*", "*cuda-fp16-b1, warpwatch)", f"{1:016x}", "*"])
def test_a_reply_names_rows_by_kernel_benchmark_title_or_key(pattern: str) -> None:
    told = with_replies(artefact(row(1, Verdict.REGRESSED)), [_reply(pattern)])
    assert told.outcome is Outcome.ACCEPTED
    assert not told.is_blocking
    assert told.rows[0].accepted is not None


def test_what_a_reply_does_not_cover_stays() -> None:
    assert with_replies(FULL, [_reply("attention*")]).outcome is Outcome.REGRESSED
    assert with_replies(FULL, [_reply("*", at_most=0.04)]).outcome is Outcome.REGRESSED
    told = with_replies(FULL, [_reply("*", at_most=0.05)])
    assert [each.verdict for each in told.rows if each.accepted] == [Verdict.REGRESSED, Verdict.INCONCLUSIVE]
    assert (told.outcome, told.is_blocking) == (Outcome.FAILED, True)  # one without a valid number


def test_a_reply_accepts_that_a_benchmark_is_gone_and_no_wrong_result() -> None:
    gone, wrong = row(1, Verdict.MISSING), row(2, Verdict.INVALID)
    told = with_replies(artefact(gone, row(3, Verdict.UNCHANGED)), [_reply("rope*")])
    assert (told.outcome, told.is_blocking) == (Outcome.ACCEPTED, False)
    assert with_replies(artefact(gone), [_reply("rope*", at_most=0.05)]).is_blocking  # a bound is of numbers
    told = with_replies(artefact(gone, wrong), [_reply("*")])
    assert (told.outcome, [each.accepted is not None for each in told.rows]) == (Outcome.FAILED, [True, False])
