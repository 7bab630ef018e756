"""What a point's page says of how its value was taken."""

from typing import Any

from warpwatch.dashboard.model.series import Origin
from warpwatch.dashboard.web.pages.point import origin_facts


def _facts(**measuring: Any) -> dict[str, str]:
    return dict(origin_facts(Origin(run="r", started_at=None, gpu={}, cpu={}, software={}, measuring=measuring)))


def test_a_baselines_inaccuracy_is_stated() -> None:
    facts = _facts(relative_error=1.5e-3, tolerance=2e-3, inaccuracy=1.42)
    assert facts["Inaccuracy"] == "1.4 times the allowed error"
    assert "Inaccuracy" not in _facts(relative_error=1.5e-3, tolerance=2e-3, inaccuracy=None)


def test_a_value_that_took_several_tries_says_so() -> None:
    assert _facts(tries=3)["Tries"] == "3, the earlier ones invalid"
    assert "Tries" not in _facts(tries=1)


def test_the_steady_latency_is_stated_or_why_there_is_none() -> None:
    assert _facts(steady_latency_s=1.8e-5)["Steady latency"] == "18.0 µs"
    assert _facts(steady_reason="not captured: it waits")["Steady latency"] == "not captured: it waits"
    assert "Steady latency" not in _facts(steady_latency_s=None, steady_reason=None)
