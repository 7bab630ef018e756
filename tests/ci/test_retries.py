"""Retries with back-off: how long the pauses are, and when a retry ends."""

import pytest

from warpwatch.ci.retries import Backoff, UnavailableError, retry

BACKOFF = Backoff(first_s=1.0, longest_s=300.0, longest_requested_s=3600.0)


def test_pauses_double_up_to_the_longest_and_differ() -> None:
    pauses = [(BACKOFF.pause_s(attempt), BACKOFF.pause_s(attempt)) for attempt in range(1, 60)]
    assert all(one != other for one, other in pauses)
    for number, pair in enumerate(pauses):
        bound = min(2.0**number, 300.0)
        assert all(bound <= pause <= 1.5 * bound for pause in pair)


@pytest.mark.parametrize(
    ("wait_s", "first_s", "least"), [(None, 0.0, 1), (77, 0.0, 77), (1e9, 0.0, 3600), (None, 60, 60)]
)
def test_a_longer_pause_requested_by_the_server_counts(wait_s: float | None, first_s: float, least: float) -> None:
    pause = BACKOFF.pause_s(1, UnavailableError("busy", wait_s, first_s=first_s))
    assert least <= pause <= 1.5 * least


def fails(times: int) -> tuple[list[str], object]:
    errors = [UnavailableError(f"away {number}") for number in range(times)]
    calls: list[str] = []

    def request() -> str:
        calls.append("")
        if errors:
            raise errors.pop(0)
        return "answer"

    return calls, request


def test_it_ends_with_the_answer_and_announces_each_pause() -> None:
    calls, request = fails(2)
    lines: list[str] = []
    assert retry(request, BACKOFF, say=lines.append, sleep=lambda seconds: None) == "answer"  # type: ignore[arg-type]
    assert (len(calls), [line.partition(";")[0] for line in lines]) == (3, ["away 0", "away 1"])


def test_the_last_error_is_raised_after_the_attempts_or_the_time() -> None:
    for limits, count in (({"attempts": 3}, 3), ({"total_s": 8.0}, 3), ({"total_s": 0.0}, 1)):
        calls, request = fails(9)
        with pytest.raises(UnavailableError, match="away"):
            retry(request, BACKOFF, sleep=lambda seconds: None, **limits)  # type: ignore[arg-type]
        assert count <= len(calls) <= count + 1


def test_another_error_is_raised_at_once() -> None:
    def request() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        retry(request, BACKOFF, sleep=lambda seconds: None)
