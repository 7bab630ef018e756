"""A series that gets worse within a year in small steps is found, and attributed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.asv_results import AsvResults
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.slow_decline import slow_declines
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import ChangeKind, DeclineCause
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.statistics.slow_decline import slow_decline
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.labels import cause_words, decline_words
from warpwatch.dashboard.web.app import create_app

DAY_MS = 24 * 3600 * 1000
COUNT = 66  # commits
EVERY_H = 121  # hours from one to the next: eleven months in all
STEPS = 11  # of 0.5 %: 5.6 % in all


def _declining(count: int, noise: float, step: float, steps: int = STEPS) -> np.ndarray:
    dice = np.random.default_rng(4)
    places = np.linspace(0.1, 0.9, steps)[:, None] * count
    return np.exp(dice.normal(0, noise, count) + np.log1p(step) * (np.arange(count) >= places).sum(axis=0))


def _dates(count: int, days: float) -> np.ndarray:
    return (np.linspace(0, days, count) * DAY_MS).astype(np.int64)


@pytest.mark.parametrize("noise", [0.001, 0.003, 0.01])
def test_steps_of_half_a_per_cent_that_sum_to_five_are_found(noise: float) -> None:
    found = slow_decline(_dates(200, 360), _declining(200, noise, 0.005), [], Better.LOWER)
    assert found is not None
    assert (found.kind, found.first, found.last) == (ChangeKind.SLOW_DECLINE, 10, 199)
    assert found.ci_low < 1.005**STEPS - 1 < found.ci_high


@pytest.mark.parametrize(
    ("levels", "days", "better"),
    [
        (_declining(200, 0.003, 0.0), 360, Better.LOWER),  # nothing changed
        (_declining(200, 0.003, 0.005), 360, Better.HIGHER),  # better
        (_declining(200, 0.003, 0.06, steps=1), 360, Better.LOWER),  # one step, up and down with the machine's quarters
        (_declining(200, 0.003, 0.005), 60, Better.LOWER),  # two months
        (_declining(30, 0.003, 0.005), 360, Better.LOWER),  # few commits
    ],
)
def test_anything_else_is_no_slow_decline(levels: np.ndarray, days: float, better: Better) -> None:
    step = int(np.linspace(0.1, 0.9, 1)[0] * len(levels))
    assert slow_decline(_dates(len(levels), days), levels, [step], better) is None


def test_what_is_older_than_a_year_does_not_count() -> None:
    levels = np.concatenate([_declining(200, 0.003, 0.005), np.full(200, 1.056)])
    assert slow_decline(_dates(400, 730), levels, [], Better.LOWER) is None


def test_a_reported_step_is_no_part_of_it() -> None:
    """20 % faster at once, and 5 % slower in small steps."""
    levels = _declining(200, 0.003, 0.005) * np.where(np.arange(200) >= 101, 0.8, 1.0)
    found = slow_decline(_dates(200, 360), levels, [101], Better.LOWER)
    assert found is not None
    assert found.magnitude == pytest.approx(0.056, abs=0.006)


Moved = Callable[[float], Mapping[str, float]]
ALL = ("warpwatch", "eager", TRIAD, MATMUL)


def _grown(index: int) -> float:
    """What the steps of half a per cent sum to, all of them between the first and the last ten commits."""
    return float(1.005 ** np.clip((index - 10) * STEPS // (COUNT - 21) + 1, 0, STEPS))


def _load(asv: AsvResults, store: Store, moved: Moved, more: Callable[[int], Mapping[str, Any]] | None = None) -> None:
    """A year of commits; `moved` gets `_grown`."""
    history = Suite(asv)
    for index in range(COUNT):
        grown = _grown(index)
        history.commit(EVERY_H * index, moved(grown), code=f"{index // 6:064x}", more=more(index) if more else None)
    asv.load(store)


def _only(store: Store) -> Any:
    (found,) = slow_declines(store, "demo").values()
    return found


def test_a_decline_of_the_kernel_alone_is_the_codes(sqlite_store: Store, asv: AsvResults) -> None:
    _load(asv, sqlite_store, lambda grown: {"warpwatch": grown})
    found = _only(sqlite_store)
    assert found.series.implementation == "warpwatch"
    assert found.change.magnitude == pytest.approx(1.005**STEPS - 1, abs=0.006)
    assert found.change.causes[DeclineCause.CODE] == pytest.approx(found.change.magnitude, abs=0.005)
    assert next(iter(found.change.causes)) is DeclineCause.CODE
    assert decline_words(found.change).endswith("(code)")
    assert cause_words(found.change).startswith("code +5.")


def test_a_decline_that_canaries_share_is_the_gpus(sqlite_store: Store, asv: AsvResults) -> None:
    _load(asv, sqlite_store, lambda grown: dict.fromkeys(ALL, grown))
    causes = _only(sqlite_store).change.causes
    assert next(iter(causes)) is DeclineCause.GPU
    assert causes.get(DeclineCause.CODE, 0.0) == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize(("cause", "fact"), [(DeclineCause.SOFTWARE, "driver"), (DeclineCause.HARNESS, "suite")])
def test_what_happened_at_changes_of_software_is_theirs(
    sqlite_store: Store, asv: AsvResults, cause: DeclineCause, fact: str
) -> None:
    """Four updates, at each of which everything became 1.4 % slower."""
    history = Suite(asv)
    for index in range(COUNT):
        update = sum(index >= place for place in (13, 26, 39, 52))
        driver, suite = (f"{600 + update if fact == name else 600}.1" for name in ("driver", "suite"))
        more = {
            "gpu": {"name": "NVIDIA H200", "uuid": "GPU-aaaaaaaa-1", "driver": driver},
            "suite_sha256": suite.ljust(64, "0"),
        }
        history.commit(EVERY_H * index, dict.fromkeys(ALL, 1.014**update), code="c" * 64, more=more)
    asv.load(sqlite_store)
    causes = _only(sqlite_store).change.causes
    assert next(iter(causes)) is cause
    assert causes[cause] == pytest.approx(1.014**4 - 1, abs=0.006)


def test_a_decline_with_equal_machine_code_is_not_the_codes(sqlite_store: Store, asv: AsvResults) -> None:
    history = Suite(asv)
    for index in range(COUNT):
        grown = _grown(index)
        history.commit(EVERY_H * index, {"warpwatch": grown}, code="c" * 64)
    asv.load(sqlite_store)
    assert next(iter(_only(sqlite_store).change.causes)) is DeclineCause.UNEXPLAINED


@pytest.mark.parametrize(
    ("declining", "cause"), [(("warpwatch",), DeclineCause.CODE), (ALL, DeclineCause.GPU)], ids=["code", "GPUs"]
)
def test_a_fleet_of_gpus_is_one_machine(
    sqlite_store: Store, asv: AsvResults, declining: tuple[str, ...], cause: DeclineCause
) -> None:
    """Three GPUs in turn, 1 % apart: GPU-adjusted values show what the code did."""
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(20)))
    for index in range(COUNT):
        grown = _grown(index)
        gpu = dict.fromkeys(ALL, 1 + 0.01 * (index % 3 - 1))
        moved = {name: gpu[name] * (grown if name in declining else 1.0) for name in ALL}
        history.commit(EVERY_H * index, moved, card=f"GPU-{'abc'[index % 3] * 8}-1", code=f"{index:064x}")
    asv.load(sqlite_store)
    found = slow_declines(sqlite_store, "demo")
    assert len(found) == 20
    assert {next(iter(each.change.causes)) for each in found.values()} == {cause}


def test_pages_the_api_and_check_show_it(sqlite_store: Store, asv: AsvResults, tmp_path: Path) -> None:
    _load(asv, sqlite_store, lambda grown: {"warpwatch": grown})
    found = _only(sqlite_store)
    client = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}")).test_client()
    overview = client.get("/demo/?kernel=rope").get_data(as_text=True)
    assert decline_words(found.change) in overview
    page = client.get("/demo/regressions?kind=slow+decline").get_data(as_text=True)
    assert cause_words(found.change) in page
    page = client.get(f"/demo/series/{found.series.key}").get_data(as_text=True)
    assert cause_words(found.change) in page
    answer = client.get(f"/api/projects/demo/series/{found.series.key}/history").get_json()
    (episode,) = [each for each in answer["episodes"] if each["kind"] == "slow decline"]
    assert episode["causes"] == pytest.approx({str(name): part for name, part in found.change.causes.items()})
    head, base, *_, first = queries.commits(sqlite_store, "demo")
    (note,) = check(sqlite_store, "demo", base, head, threshold=0.02).notes
    assert note.startswith("Slow decline: ")
    assert note.endswith("in small steps, mostly code")
    assert check(sqlite_store, "demo", first, base, threshold=0.02).notes == ()
