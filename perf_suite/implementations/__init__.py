"""The callables that are timed; `prepare` binds one, by its name, to a workload's inputs."""

import importlib

from warpbench.inputs import Inputs
from warpbench.prepared import Prepared, UnavailableError
from warpbench.workload import Workload


def prepare(workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
    """Bind an implementation to inputs. Raises UnavailableError if this commit or machine lacks it."""
    module = importlib.import_module(f"{__name__}.{workload.operator}")
    factory = getattr(module, implementation, None)
    if factory is None:
        raise UnavailableError(f"{workload.operator} has no implementation named {implementation}")
    prepared: Prepared = factory(inputs)
    return prepared
