"""The suite's values as asv asks for them, one benchmark × parameters at a time. No torch here.

The benchmark classes only look up what their setup_cache has measured. This does for them what asv's process does:
unpickle the cache, call `setup` and the method, turn the answer into JSON.
"""

import functools
import importlib
import itertools
import json
import math
import pickle
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .catalogue_jobs import Selection
from .protocol import OPTIONAL_METRICS

_PACKAGE = __name__.rpartition(".")[0]
_METHOD_PREFIX = "track_"
_NOT_AVAILABLE = json.dumps(math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What asv is told: JSON, or what went wrong."""

    json: str
    failure: str | None = None

    @property
    def is_available(self) -> bool:
        """Not asv's n/a."""
        return self.json != _NOT_AVAILABLE


def look_up(benchmark: str, folder: str | None) -> Value | None:
    """The value of "benchmarks.rope.Rope.track_latency-3" out of the cache that asv keeps in `folder`.

    None if there is no such cache or no such class of ours: then it is not for us to answer.
    """
    name, _, index = benchmark.partition("-")
    found = _benchmark(name)
    cache_file = Path(folder or "") / "cache.pickle"
    if found is None or not folder or not cache_file.exists():
        return None
    instance, method = found
    combination = _combination(instance.params, int(index or 0))
    try:
        cache = _cache(cache_file, cache_file.stat().st_mtime_ns)
    except Exception:  # asv's own process will say so
        return None
    try:
        instance.setup(cache, *combination)
        return Value(json=json.dumps(getattr(instance, method)(cache, *combination)))
    except NotImplementedError:
        return Value(json=_NOT_AVAILABLE)
    except Exception:
        return Value(json="", failure=traceback.format_exc())


def selection(selected: Mapping[str, Any]) -> Selection:
    """What a session has to measure for asv's benchmarks, by name, each with the indices chosen (None: all)."""
    wanted: dict[str, dict[tuple[str, str], set[str]]] = {}
    for name, indices in selected.items():
        found = _benchmark(name)
        if found is None or not hasattr(found[0], "operator"):
            continue
        instance, method = found
        metric = method.removeprefix(_METHOD_PREFIX)
        for index, combination in enumerate(itertools.product(*instance.params)):
            if indices is None or index in indices:
                metrics = wanted.setdefault(instance.operator, {}).setdefault(combination, set())
                if metric in OPTIONAL_METRICS:
                    metrics.add(metric)
    return wanted


@functools.cache
def _benchmark(name: str) -> tuple[Any, str] | None:
    """An instance of the class and the method that asv means by a name; None if it is none of ours."""
    module_name, _, attribute = name.rpartition(".")
    module_name, _, class_name = module_name.rpartition(".")
    try:
        module = importlib.import_module(f"{_PACKAGE}.{module_name}")
    except ModuleNotFoundError:
        return None
    kind = getattr(module, class_name, None)
    if kind is None or not hasattr(kind, "setup_cache") or not hasattr(kind, attribute):
        return None
    return kind(), attribute


def _combination(params: Any, index: int) -> tuple[Any, ...]:
    return next(itertools.islice(itertools.product(*params), index, None))


@functools.lru_cache(maxsize=4)
def _cache(file: Path, written_ns: int) -> Any:
    """What setup_cache returned; `written_ns` tells one file from the next of the same name."""
    return pickle.loads(file.read_bytes())
