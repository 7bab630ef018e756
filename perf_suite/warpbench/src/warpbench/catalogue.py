"""All benchmarks of a project's benchmark directory. No torch here, unless a benchmark module imports it."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from .benchmark import KernelBenchmark


def benchmark_classes(package: ModuleType) -> dict[str, type[KernelBenchmark]]:
    """asv's name of each class -> the class, of the package and of those in it.

    Raises what a module raises when it is imported.
    """
    found: dict[str, type[KernelBenchmark]] = {}
    for module in _modules(package):
        path = module.__name__.partition(".")[2]
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, KernelBenchmark) and not inspect.isabstract(kind) and kind.workloads():
                found[".".join(filter(None, (path, name)))] = kind
    return found


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for each in pkgutil.iter_modules(getattr(package, "__path__", ())):
        module = importlib.import_module(f"{package.__name__}.{each.name}")
        yield from _modules(module) if each.ispkg else (module,)
