"""The suite's values as asv requests them, one benchmark × parameters at a time. No torch here.

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
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import benchmark_root
from .control import Control
from .jobs import Selection

_METHOD_PREFIX = "track_"
_NOT_AVAILABLE = json.dumps(math.nan)
_package = ""  # of the project's benchmarks


def use_benchmarks(folder: Path) -> None:
    """Look benchmarks up in this directory."""
    global _package
    _package = benchmark_root.use(folder)
    _benchmark.cache_clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What asv receives: JSON, or what went wrong."""

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


def selection(selected: Mapping[str, Any], known: Collection[str] = ()) -> Selection:
    """What a session has to measure for asv's benchmarks, by name, each with the indices chosen (None: all).

    `known` are the names of all of the project's benchmarks, of which one may be the controls.
    """
    wanted = Selection()
    wanted.control = next(filter(None, map(_control_named, known)), wanted.control)
    for name, indices in selected.items():
        found = _benchmark(name)
        if found is None:
            continue
        instance, method = found
        kind = type(instance)
        metric = method.removeprefix(_METHOD_PREFIX)
        for index, combination in enumerate(itertools.product(*instance.params)):
            if indices is None or index in indices:
                source = f"{kind.__module__}:{kind.__qualname__}"
                wanted.add(name.rpartition(".")[0], source, combination, metric)
    return wanted


def _control_named(name: str) -> str | None:
    found = _benchmark(name)
    return name.rpartition(".")[0] if found and isinstance(found[0], Control) else None


@functools.cache
def _benchmark(name: str) -> tuple[Any, str] | None:
    """An instance of the class and the method that asv means by a name; None if it is none of ours."""
    module_name, _, attribute = name.rpartition(".")
    module_name, _, class_name = module_name.rpartition(".")
    try:
        module = importlib.import_module(f"{_package}.{module_name}")
    except ImportError:
        return None
    kind = getattr(module, class_name, None)
    if kind is None or not getattr(kind, "measured_by_warpbench", False) or not hasattr(kind, attribute):
        return None
    return kind(), attribute


def _combination(params: Any, index: int) -> tuple[Any, ...]:
    return next(itertools.islice(itertools.product(*params), index, None))


@functools.lru_cache(maxsize=4)
def _cache(file: Path, written_ns: int) -> Any:
    """What setup_cache returned; `written_ns` distinguishes one file from the next of the same name."""
    return pickle.loads(file.read_bytes())
