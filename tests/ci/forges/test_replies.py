"""Regressions accepted in replies: by which users, for which head, and what an artefact then contains of it."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.ci.forges.conftest import Forge
from tests.ci.reports.examples import FULL, HEAD, artefact, row
from warpwatch.ci.forges.replies import replies_of
from warpwatch.ci.forges.sticky_comment import put_comment
from warpwatch.ci.reports.comment import markdown
from warpwatch.ci.reports.gate_labels import Links, with_replies
from warpwatch.dashboard.model.comparison import Acceptance, Outcome
from warpwatch.dashboard.model.verdict import Verdict

LATER = datetime.now(UTC) + timedelta(hours=1)
NEWER = "c" * 40


@pytest.fixture
def reported(forge: Forge) -> Forge:
    """A pull request with a report of its head; ann may write."""
    forge.talk.writers = frozenset({"ann"})
    put_comment(forge.thread(), HEAD, "regressed")
    return forge


def _replies(forge: Forge, head: str = HEAD) -> tuple[list[Acceptance], list[str]]:
    found = replies_of(forge.thread(), head)
    return list(found.accepted), list(found.refused)


def test_replies_of_users_with_write_access_count(reported: Forge) -> None:
    number = reported.talk.comment("ann", "Fine.\r\n/warpwatch accept rope* <= 5 % twice as exact\r\n", LATER)
    reported.talk.comment("ann", "/warpwatch accept *attention* worth it", LATER)
    (first, second), refused = _replies(reported)
    assert (first.pattern, first.reason, first.by, first.at_most) == ("rope*", "twice as exact", "ann", 0.05)
    assert first.source == f"comment {number}"
    assert (second.pattern, second.reason, second.at_most) == ("*attention*", "worth it", None)
    assert refused == []


@pytest.mark.parametrize("arguments", ["* <= 0 % fine", "*", "", "rope* <= 5 %", "g" * 300 + " fine"])
def test_an_incomplete_reply_is_refused_with_the_syntax(reported: Forge, arguments: str) -> None:
    reported.talk.comment("ann", f"/warpwatch accept {arguments}", LATER)
    found, (refused,) = _replies(reported)
    assert found == []
    assert "expected /warpwatch accept <glob>" in refused


@pytest.mark.parametrize("who", ["bob", "stranger"])
def test_replies_of_other_users_are_refused(reported: Forge, who: str) -> None:
    reported.talk.comment(who, "/warpwatch accept * please", LATER)
    found, (refused,) = _replies(reported)
    assert found == []
    assert f"{who} (comment" in refused
    assert "no write access" in refused


def test_replies_to_an_earlier_head_expire(reported: Forge) -> None:
    reported.talk.comment("ann", "/warpwatch accept * fine", datetime.now(UTC) - timedelta(days=1))
    reported.talk.head = NEWER
    put_comment(reported.thread(), NEWER, "regressed by far more")
    found, (refused,) = _replies(reported, NEWER)
    assert found == []
    assert "older than the report of cccccccc" in refused


def test_expired_replies_are_noted_if_they_would_cover_a_blocking_row(reported: Forge) -> None:
    for who, arguments in (
        ("ann", "rope* <= 50 % exact"),
        ("ann", "attention* exact"),
        ("bob", "* please"),
        ("ann", "*"),
    ):
        reported.talk.comment(who, f"/warpwatch accept {arguments}", datetime.now(UTC) - timedelta(days=1))
    reported.talk.head = NEWER
    put_comment(reported.thread(), NEWER, "regressed again")
    found = replies_of(reported.thread(), NEWER)
    assert [each.pattern for each in found.expired] == ["rope*", "attention*"]
    text = with_replies(artefact(row(1, Verdict.REGRESSED)), found.accepted, found.expired)
    assert text.is_blocking
    (note,) = text.notes
    assert note.startswith("rope*, accepted by ann (comment ")
    assert "has expired: reply again" in note
    assert "has expired" in markdown([text], Links(dashboard=None))
    assert with_replies(artefact(row(1, Verdict.UNCHANGED)), (), found.expired).notes == ()


def test_an_updated_report_keeps_replies_to_its_head(reported: Forge) -> None:
    reported.talk.comment("ann", "/warpwatch accept * fine", LATER)
    put_comment(reported.thread(), HEAD, "accepted")
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
def test_quoted_text_and_code_are_no_commands(reported: Forge, text: str) -> None:
    reported.talk.comment("ann", text, LATER)
    assert _replies(reported) == ([], [])


def _reply(pattern: str, at_most: float | None = None) -> Acceptance:
    return Acceptance(pattern=pattern, reason="fine", by="ann", at=LATER, source="comment 1", at_most=at_most)


@pytest.mark.parametrize("pattern", ["rope", "benchmarks.rope.*", "*cuda-fp16-b1, warpwatch)", f"{1:016x}", "*"])
def test_a_reply_names_rows_by_kernel_benchmark_title_or_key(pattern: str) -> None:
    text = with_replies(artefact(row(1, Verdict.REGRESSED)), [_reply(pattern)])
    assert text.outcome is Outcome.ACCEPTED
    assert not text.is_blocking
    assert text.rows[0].accepted is not None


def test_rows_that_no_reply_covers_stay() -> None:
    assert with_replies(FULL, [_reply("attention*")]).outcome is Outcome.REGRESSED
    assert with_replies(FULL, [_reply("*", at_most=0.04)]).outcome is Outcome.REGRESSED
    text = with_replies(FULL, [_reply("*", at_most=0.05)])
    assert [each.verdict for each in text.rows if each.accepted] == [Verdict.REGRESSED, Verdict.INCONCLUSIVE]
    assert (text.outcome, text.is_blocking) == (Outcome.FAILED, True)  # one without a valid number


def test_a_reply_accepts_that_a_benchmark_is_gone_and_no_wrong_result() -> None:
    gone, wrong = row(1, Verdict.MISSING), row(2, Verdict.INVALID)
    text = with_replies(artefact(gone, row(3, Verdict.UNCHANGED)), [_reply("rope*")])
    assert (text.outcome, text.is_blocking) == (Outcome.ACCEPTED, False)
    assert with_replies(artefact(gone), [_reply("rope*", at_most=0.05)]).is_blocking  # a bound is of numbers
    text = with_replies(artefact(gone, wrong), [_reply("*")])
    assert (text.outcome, [each.accepted is not None for each in text.rows]) == (Outcome.FAILED, [True, False])
