"""asv takes every rise for worse: what is better when higher is exempt from its regressions, and nothing else."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

from asv.config import Config

from perf_suite import benchmarks
from warpwatch.dashboard.model.metric import Better, metric

ROOT = Path(__file__).resolve().parents[2]


def test_asv_reports_no_rise_of_what_is_better_when_higher() -> None:
    exempt = Config.load(str(ROOT / "asv.conf.json")).regressions_first_commits
    modules = [
        importlib.import_module(f"{benchmarks.__name__}.{found.name}")
        for found in pkgutil.iter_modules(benchmarks.__path__)
    ]
    units = {
        name.removeprefix("track_"): method.unit
        for module in modules
        for _, suite in inspect.getmembers(module, inspect.isclass)
        for name, method in inspect.getmembers(suite, inspect.isfunction)
        if name.startswith("track_")
    }
    higher = {name for name, unit in units.items() if metric(name, unit).better is Better.HIGHER}
    assert {"bandwidth", "occupancy"} <= higher < units.keys()
    assert {name for name in units if any(re.match(pattern, f"a.B.track_{name}(c)") for pattern in exempt)} == higher
