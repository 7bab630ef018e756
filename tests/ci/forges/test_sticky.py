"""One comment on a pull request, whatever happens meanwhile: never twice, never an older head's over a newer one's."""

import threading

import pytest

from tests.ci.forges.conftest import Forge, doubling
from tests.ci.forges.forge_server import Failure, ForgeRequest
from tests.ci.reports.examples import HEAD
from warpwatch.ci.forges.forge_request import ForgeError
from warpwatch.ci.forges.sticky_comment import PostOutcome, marker_of, put_comment

NEWER = "c" * 40


def _put(forge: Forge, text: str = "regressed", head: str = HEAD, **thread: str) -> PostOutcome:
    return put_comment(forge.thread(**thread), head, text, sleep=forge.waits.append)


def _texts(forge: Forge) -> list[str]:
    """What our comments say below their markers."""
    return [body.partition("\n")[2] for body in forge.talk.mine()]


def test_it_is_made_once_and_changed_in_place(forge: Forge) -> None:
    assert _put(forge) is PostOutcome.CREATED
    assert _put(forge) is PostOutcome.UNCHANGED
    assert _put(forge, "no change") is PostOutcome.UPDATED
    assert _texts(forge) == ["no change"]
    assert forge.server.count(forge.post) == 1
    assert [each.edits for each in forge.talk.posted.values()] == [1]


def test_line_ends_and_blanks_that_a_forge_changes_are_no_change(forge: Forge) -> None:
    assert _put(forge, "a\n\nb\n") is PostOutcome.CREATED
    (posted,) = forge.talk.posted.values()
    posted.body = posted.body.rstrip().replace("\n", "\r\n")
    assert _put(forge, "a\n\nb\n") is PostOutcome.UNCHANGED


def test_it_is_found_among_hundreds_and_a_strangers_marker_is_left_alone(forge: Forge) -> None:
    assert _put(forge) is PostOutcome.CREATED
    (ours,) = forge.talk.mine()
    forged = forge.talk.comment("stranger", ours)
    first = forge.talk.comment("early", "first")
    forge.talk.posted[1] = forge.talk.posted.pop(first)  # older than ours
    for number in range(250):
        forge.talk.comment("someone", f"comment {number}")
    (number,) = [number for number, posted in forge.talk.posted.items() if posted.body == ours and number != forged]
    forge.talk.posted[900] = forge.talk.posted.pop(number)  # on the last page
    assert _put(forge, "later") is PostOutcome.UPDATED
    assert _texts(forge) == ["later"]
    assert forge.talk.posted[forged].body == ours


def test_an_older_head_is_not_reported(forge: Forge) -> None:
    forge.talk.head = NEWER
    assert _put(forge, "newer", NEWER) is PostOutcome.CREATED
    assert _put(forge, "older", HEAD) is PostOutcome.STALE
    assert _texts(forge) == ["newer"]


def _newer_job_reports(forge: Forge, at: str) -> None:
    """When a request of that kind was answered, a push and its report happen before the next."""

    def meanwhile(request: ForgeRequest) -> None:
        if request.operation.startswith(at) and forge.talk.head == HEAD:
            forge.talk.head = NEWER
            for posted in forge.talk.posted.values():
                marker = marker_of(posted.body)
                assert marker is not None
                posted.body = str(marker).replace(HEAD, NEWER) + "\nnewer"

    forge.server.after = meanwhile


def test_an_overwritten_newer_report_is_restored(forge: Forge) -> None:
    _put(forge)
    _newer_job_reports(forge, forge.head)
    assert _put(forge, "older") is PostOutcome.STALE
    assert _texts(forge) == ["newer"]


def test_an_old_report_is_replaced_if_the_head_moved(forge: Forge) -> None:
    _put(forge)
    _newer_job_reports(forge, forge.listing)
    assert _put(forge, "older") is PostOutcome.STALE
    (text,) = _texts(forge)
    assert "the pull request has a newer commit" in text
    assert NEWER in text
    assert _put(forge, "newer", NEWER) is PostOutcome.UPDATED
    assert _texts(forge) == ["newer"]


def test_of_two_jobs_that_are_as_fast_one_comment_stays(forge: Forge) -> None:
    other: list[PostOutcome] = []

    def meanwhile(request: ForgeRequest) -> None:
        if request.operation.startswith(forge.post) and not other:
            other.append(PostOutcome.CREATED)
            forge.server.lock.release()  # this one waits for its answer while the other does all its work
            try:
                other.append(_put(forge))
            finally:
                forge.server.lock.acquire()

    forge.server.before = meanwhile
    assert _put(forge) is PostOutcome.CREATED
    assert _texts(forge) == ["regressed"]


def test_many_jobs_at_once_leave_one_comment(forge: Forge) -> None:
    threads = [threading.Thread(target=_put, args=(forge, f"job {number}")) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert _put(forge, "the last") is PostOutcome.UPDATED
    assert _texts(forge) == ["the last"]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("status", [502, None])
def test_a_request_that_may_have_been_done_is_not_done_twice(forge: Forge, status: int | None, done: bool) -> None:
    forge.server.failures.append(Failure(operation=forge.post, status=status, done=done))
    assert _put(forge) in {PostOutcome.CREATED, PostOutcome.UNCHANGED}
    assert _texts(forge) == ["regressed"]
    assert forge.waits == doubling(1.0, 1)
    assert forge.server.count(forge.post) == (1 if done else 2)
    forge.server.failures.append(Failure(operation=forge.change, status=status, done=done))
    _put(forge, "later")
    assert _texts(forge) == ["later"]


def test_an_unavailable_forge_is_retried_with_back_off(forge: Forge) -> None:
    forge.server.failures += [Failure(operation=forge.listing, status=503) for _ in range(3)]
    assert _put(forge) is PostOutcome.CREATED
    assert forge.waits == doubling(1.0, 3)


def test_one_that_stays_away_is_given_up_by_name(forge: Forge) -> None:
    forge.server.failures += [Failure(operation=forge.head, status=503) for _ in range(20)]
    with pytest.raises(ForgeError, match=r"gave up after 6 attempts.*503"):
        _put(forge)


def test_a_rate_limit_of_github_sets_the_pause(github: Forge) -> None:
    posted = {"message": "You have exceeded a secondary rate limit."}
    limited = Failure(operation=github.post, status=403, headers={"Retry-After": "7"}, body=posted)
    github.server.failures.append(limited)
    assert _put(github) is PostOutcome.CREATED
    assert github.waits == [7.0]
    github.server.failures.append(Failure(operation=github.head, status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(ForgeError, match="try again later"):
        _put(github)


def test_a_rate_limit_of_gitlabs_is_waited_for(forge: Forge) -> None:
    forge.server.failures.append(Failure(operation=forge.post, status=429, headers={"Retry-After": "0"}))
    assert _put(forge) is PostOutcome.CREATED
    assert _texts(forge) == ["regressed"]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_reported_and_not_retried(forge: Forge, status: int) -> None:
    thread = forge.thread()
    forge.server.failures.append(Failure(operation=forge.post, status=status, body={"message": "no such thing"}))
    with pytest.raises(ForgeError, match=f"answered {status}.*no such thing"):
        put_comment(thread, HEAD, "regressed", sleep=forge.waits.append)
    assert forge.waits == []


def test_a_workflows_token_may_not_read_its_user(github: Forge) -> None:
    github.talk.me = None
    assert _put(github) is PostOutcome.CREATED
    assert _put(github) is PostOutcome.UNCHANGED
    assert github.server.count(github.post) == 1


def test_a_wrong_author_is_corrected_and_the_oldest_comment_kept(forge: Forge) -> None:
    assert _put(forge) is PostOutcome.CREATED
    (first,) = forge.talk.posted
    assert _put(forge, "later", author="somebody-else") is PostOutcome.CREATED
    assert _texts(forge) == ["later"]
    assert list(forge.talk.posted) == [first]
