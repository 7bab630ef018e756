"""Words next to numbers."""

from datetime import UTC, datetime, timedelta

import pytest

from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.naming import module_of, name_in_module, natural
from warpwatch.dashboard.model.quantities import axis_unit
from warpwatch.dashboard.text.labels import breakable, change_word, count, percent
from warpwatch.dashboard.web.template_filters import age


@pytest.mark.parametrize(
    ("change", "unit", "word"),
    [
        (0.041, "seconds", "slower"),
        (-0.041, "seconds", "faster"),
        (0.041, "GB/s", "faster"),
        (-0.041, "TFLOP/s", "slower"),
        (0.041, "bytes", "larger"),
        (-0.041, "unit", "better"),
        (0.5, "launches", "more"),
        (-0.5, "registers", "fewer"),
        (-0.1, "joules", "less"),
        (0.1, "cycles", "slower"),
        (0.1, "share of peak", "better"),
        (0.0001, "seconds", ""),
        (None, "seconds", ""),
    ],
)
def test_the_word_follows_the_metrics_direction(change: float | None, unit: str, word: str) -> None:
    assert change_word(change, metric("x", unit)) == word


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=1), "1 min ago"),
        (timedelta(hours=50), "2 days ago"),
        (timedelta(days=400), "1 year ago"),
    ],
)
def test_an_age_is_shown_in_its_largest_unit(passed: timedelta, said: str) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert age(now - passed, now) == said


def test_a_share_above_one_fills_its_bar_and_no_more() -> None:
    assert (percent(-0.1), percent(0.632), percent(1.7)) == ("0.0%", "63.2%", "100.0%")


def test_counts_have_their_noun() -> None:
    assert (count(1, "commit"), count(1396, "commit"), count(2, "series", "series")) == (
        "1 commit",
        "1,396 commits",
        "2 series",
    )


def test_a_breakable_name_is_escaped() -> None:
    assert breakable("a.<b>_c") == "a.<wbr>&lt;b&gt;_<wbr>c"


@pytest.mark.parametrize(
    ("full", "module", "name"),
    [
        ("benchmarks.rope.Rope.track_latency", "benchmarks.rope", "Rope.track_latency"),
        ("module.time_it", "module", "time_it"),
        ("time_it", "time_it", "time_it"),
        ("Suite.time_it", "Suite.time_it", "Suite.time_it"),
    ],
)
def test_a_benchmark_stands_in_its_module(full: str, module: str, name: str) -> None:
    assert (module_of(full), name_in_module(full)) == (module, name)


@pytest.mark.parametrize(
    ("typical", "unit", "factor", "shown"),
    [
        (3e-5, "seconds", 1e6, "µs"),
        (4370, "GB/s", 1e-3, "TB/s"),
        (96, "registers", 1.0, "registers"),
        (0, "seconds", 1.0, "s"),
        (2e-3, "joules", 1e3, "mJ"),
        (0.6, "share of peak", 100.0, "% of peak"),
    ],
)
def test_an_axis_has_one_unit(typical: float, unit: str, factor: float, shown: str) -> None:
    assert axis_unit(typical, unit) == (pytest.approx(factor), shown)


def test_sizes_in_names_come_in_their_order() -> None:
    names = ["b1-s2048", "b1-s512", "b16-s512", "b8", "²", ""]
    assert sorted(names, key=natural) == ["", "b1-s512", "b1-s2048", "b8", "b16-s512", "²"]
