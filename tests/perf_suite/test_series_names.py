"""The series on record go on: a name or a version that changes would end one and begin another."""

import importlib
import inspect
import json
import pkgutil
from pathlib import Path

from perf_suite import benchmarks
from perf_suite.catalogue import OPERATORS
from warpwatch.dashboard.model.metric import Better, metric

RECORDED = Path(__file__).resolve().parents[2] / "perf_suite" / "results" / "benchmarks.json"


def _benchmarks() -> dict[str, tuple[str, str]]:
    """Version and unit of each benchmark, by asv's name for it."""
    found = {}
    for each in pkgutil.iter_modules(benchmarks.__path__):
        module = importlib.import_module(f"{benchmarks.__name__}.{each.name}")
        for class_name, suite in inspect.getmembers(module, inspect.isclass):
            if inspect.isabstract(suite):  # as asv does, wherever the class is from
                continue
            for name, method in inspect.getmembers(suite, inspect.isfunction):
                if name.startswith("track_"):
                    version = getattr(method, "version", None) or suite.version
                    found[f"benchmarks.{each.name}.{class_name}.{name}"] = version, method.unit
    return found


def test_every_recorded_series_has_its_name_version_and_unit() -> None:
    recorded = {
        name: (entry["version"], entry["unit"])
        for name, entry in json.loads(RECORDED.read_text()).items()
        if isinstance(entry, dict)
    }
    assert len(recorded) > 300
    now = _benchmarks()
    assert {name: now.get(name) for name in recorded} == recorded


def test_every_recorded_combination_of_parameters_still_exists() -> None:
    """Cases and implementations may be added; a recorded one that is gone or renamed would end its series."""
    for name, entry in json.loads(RECORDED.read_text()).items():
        if not name.endswith(".track_latency"):
            continue
        _, module, class_name, _ = name.split(".")
        kind = getattr(importlib.import_module(f"{benchmarks.__name__}.{module}"), class_name)
        recorded = [{value.strip("'") for value in values} for values in entry["params"]]
        now = [set(map(str, values)) for values in kind.params]
        assert all(before <= after for before, after in zip(recorded, now, strict=True)), name


def test_every_operator_has_a_steady_latency_that_the_dashboard_knows() -> None:
    steady = {name: of for name, of in _benchmarks().items() if name.endswith(".track_steady_latency")}
    assert {name.split(".")[1] for name in steady} == set(OPERATORS)
    assert set(steady.values()) == {("1", "seconds")}
    known = metric("steady_latency", "seconds")
    assert (known.better, known.is_judged, known.unit, known.label) == (Better.LOWER, True, "seconds", "steady latency")
    assert not known.is_latency, "the speed of light and the ratios are of the cold one"
    assert (known.noise_family, known.follows_machine) == ("steady_latency", True)
