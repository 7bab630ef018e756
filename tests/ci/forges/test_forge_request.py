"""Which answers of a forge are asked for again, and after how long."""

from email.utils import formatdate

import pytest

from tests.ci.forges.conftest import Forge, doubling
from tests.ci.forges.forge_server import Failure
from tests.ci.reports.examples import HEAD
from warpwatch.ci.forges.forge_request import ForgeError, TransientError, check_answer, with_retries
from warpwatch.ci.forges.sticky_comment import PostOutcome, put_comment

NOW = 1_800_000_000.0
SECONDARY = '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
PRIMARY = '{"message": "API rate limit exceeded for installation ID 1."}'
REFUSED = '{"message": "Resource not accessible by integration"}'


def answered(status: int, headers: dict[str, str], text: str = "{}", method: str = "GET") -> None:
    lowered = {name.lower(): value for name, value in headers.items()}

    class AnyCase(dict[str, str]):
        def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
            return lowered.get(name.lower(), default)

    check_answer("GitHub", method, status, AnyCase(), text, now=lambda: NOW)


def waits(
    status: int, headers: dict[str, str], text: str = "{}", times: int = 1, total_s: float = 600.0
) -> list[float]:
    """The pauses until an answer comes that is fine, after so many that are not."""
    left, paused = [None] * times, list[float]()

    def send() -> None:
        if left:
            left.pop()
            answered(status, headers, text)

    with_retries(send, sleep=paused.append, total_s=total_s)
    return paused


@pytest.mark.parametrize(
    ("status", "headers", "text", "pause"),
    [
        (403, {"retry-after": "7"}, SECONDARY, 7.0),
        (429, {"Retry-After": "90"}, "", 90.0),
        (429, {"Retry-After": formatdate(NOW + 75, usegmt=True)}, "", 75.0),
        (503, {"Retry-After": "20"}, "", 20.0),
        (429, {"Retry-After": formatdate(NOW - 75, usegmt=True)}, "", 1.0),
        (429, {"Retry-After": "soon"}, "", 60.0),
        (403, {"X-RateLimit-Remaining": "0", "x-ratelimit-reset": f"{NOW + 120:.0f}"}, PRIMARY, 121.0),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": f"{NOW + 30:.0f}"}, "Retry later", 31.0),
        (403, {"x-ratelimit-remaining": "4999", "x-ratelimit-reset": f"{NOW + 3000:.0f}"}, SECONDARY, 60.0),
        (403, {}, '{"message": "You have triggered an abuse detection mechanism."}', 60.0),
        (429, {}, "", 60.0),
        (500, {}, "", 1.0),
        (502, {}, "<html>", 1.0),
        (503, {}, "", 1.0),
        (504, {}, "", 1.0),
        (520, {}, "", 1.0),
        (408, {}, "", 1.0),
        (200, {}, "", 1.0),
        (200, {}, "<html>sign in</html>", 1.0),
        (201, {}, '{"id": 1', 1.0),
    ],
)
def test_a_busy_forge_is_retried_after_its_pause(status: int, headers: dict[str, str], text: str, pause: float) -> None:
    assert waits(status, headers, text) == doubling(pause, 1)


@pytest.mark.parametrize(
    ("status", "text", "method"),
    [
        (200, "[]", "GET"),
        (201, "{}", "POST"),
        (204, "", "POST"),
        (200, "", "DELETE"),
        (202, "", "DELETE"),
        (301, "", "GET"),
        (401, "{}", "GET"),
        (403, REFUSED, "POST"),
        (404, "", "GET"),
        (410, "", "GET"),
        (422, SECONDARY, "POST"),
    ],
)
def test_any_other_answer_is_final(status: int, text: str, method: str) -> None:
    answered(status, {"x-ratelimit-remaining": "12", "x-ratelimit-reset": "1"}, text, method)


def test_pauses_double_and_end() -> None:
    assert waits(502, {}, times=5) == doubling(1.0, 5)
    assert waits(403, {}, SECONDARY, times=3, total_s=630.0) == doubling(60.0, 3)  # the longest with jitter
    with pytest.raises(ForgeError, match=r"^gave up after [34] attempts, try again later: GitHub answered 403, a rate"):
        waits(403, {}, SECONDARY, times=20)
    with pytest.raises(ForgeError, match=r"^gave up after 6 attempts, try again later: GitHub answered 502$"):
        waits(502, {}, times=20)


def test_a_limit_that_lasts_longer_than_anybody_waits_is_given_up_at_once() -> None:
    with pytest.raises(ForgeError, match=r"^gave up after 1 attempt, try again later: .* ends in 1801 s$"):
        waits(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 1800:.0f}"}, PRIMARY)
    with pytest.raises(ForgeError, match="1 attempt"):
        waits(503, {"Retry-After": "11"}, total_s=10.0)


def test_an_unhandled_transient_error_has_a_message() -> None:
    assert issubclass(TransientError, ForgeError)


ANSWERS = [(500, ""), (502, "<html>"), (503, {}), (504, ""), (None, ""), (200, ""), (200, "<html>sign in</html>")]


@pytest.mark.parametrize(("status", "body"), ANSWERS)
@pytest.mark.parametrize("request_kind", ["head", "listing", "post"])
@pytest.mark.parametrize("done", [True, False])
def test_a_comment_is_made_once_whatever_an_answer_is(
    forge: Forge, request_kind: str, status: int | None, body: str, done: bool
) -> None:
    operation = getattr(forge, request_kind)
    forge.server.failures.append(Failure(operation=operation, status=status, body=body, done=done))
    assert put_comment(forge.thread(), HEAD, "regressed", sleep=forge.waits.append) in {
        PostOutcome.CREATED,
        PostOutcome.UNCHANGED,
    }
    assert len(forge.talk.mine()) == 1
    assert forge.waits == doubling(1.0, 1)


def test_a_forge_that_refuses_connections_is_one_that_did_not_answer(forge: Forge) -> None:
    thread = forge.thread(author="somebody")
    forge.server.shutdown()
    forge.server.server_close()
    with pytest.raises(ForgeError, match=r"gave up after 6 attempts, .* did not answer"):
        put_comment(thread, HEAD, "regressed", sleep=forge.waits.append)
    assert len(forge.waits) == 5


def test_an_answer_of_another_shape_is_named(forge: Forge) -> None:
    thread = forge.thread(author="somebody")
    forge.server.failures.append(Failure(operation=forge.head, status=200, body={}))
    with pytest.raises(ForgeError, match="answer cannot be read"):
        put_comment(thread, HEAD, "regressed", sleep=forge.waits.append)
    assert forge.waits == []
