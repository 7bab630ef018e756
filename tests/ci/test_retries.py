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
def test_a_longer_pause_that_the_server_asks_for_counts(wait_s: float | None, first_s: float, least: float) -> None:
    pause = BACKOFF.pause_s(1, UnavailableError("busy", wait_s, first_s=first_s))
    assert least <= pause <= 1.5 * least


def fails(times: int) -> tuple[list[str], object]:
    errors = [UnavailableError(f"away {number}") for number in range(times)]
    asked: list[str] = []

    def ask() -> str:
        asked.append("")
        if errors:
            raise errors.pop(0)
        return "answer"

    return asked, ask


def test_it_ends_with_the_answer_and_announces_each_pause() -> None:
    asked, ask = fails(2)
    said: list[str] = []
    assert retry(ask, BACKOFF, say=said.append, sleep=lambda seconds: None) == "answer"  # type: ignore[arg-type]
    assert (len(asked), [line.partition(";")[0] for line in said]) == (3, ["away 0", "away 1"])


def test_it_ends_with_the_last_error_after_its_attempts_or_its_time() -> None:
    for limits, count in (({"attempts": 3}, 3), ({"total_s": 8.0}, 3), ({"total_s": 0.0}, 1)):
        asked, ask = fails(9)
        with pytest.raises(UnavailableError, match="away"):
            retry(ask, BACKOFF, sleep=lambda seconds: None, **limits)  # type: ignore[arg-type]
        assert count <= len(asked) <= count + 1


def test_another_error_is_raised_at_once() -> None:
    def ask() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        retry(ask, BACKOFF, sleep=lambda seconds: None)
