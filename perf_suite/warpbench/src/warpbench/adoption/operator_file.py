"""A tritonbench operator: methods marked @register_benchmark over the inputs of get_input_iter.

tritonbench knows an operator by its module's path, so the file is imported as a module of its package.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from .sweep import NotAdoptedError, Sweep, SweptCase, Value, dtype_of, word

_MOST_INPUTS = 200  # some iterators do not end


class OperatorFile:
    """A file with a class derived from BenchmarkOperator."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.sweeps: dict[str, Sweep] = {}
        self.remarks: list[str] = []
        self._root, self._module = _place(file)

    def run(self) -> None:
        """Import the file and go through its inputs. Raises NotAdoptedError without an operator, and what it raises."""
        with self.surroundings():
            module = importlib.import_module(self._module)
            from tritonbench.utils import triton_op

            kinds = [
                kind
                for kind in vars(module).values()
                if isinstance(kind, type)
                and issubclass(kind, triton_op.BenchmarkOperator)
                and kind.__module__ == module.__name__
            ]
            if not kinds:
                raise NotAdoptedError("it defines no subclass of BenchmarkOperator")
            for kind in kinds:
                self._adopt(kind, triton_op)

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """The process as the file expects it: its package's folder on sys.path.

        tritonbench replaces torch.manual_seed by one that always takes its own seed; not for what is not its own.
        """
        path, arguments, manual_seed = list(sys.path), sys.argv, torch.manual_seed
        sys.path.insert(0, str(self._root))
        sys.argv = [str(self.file)]
        try:
            yield
        finally:
            sys.path[:], sys.argv = path, arguments
            torch.manual_seed = manual_seed

    def _adopt(self, kind: Any, triton_op: Any) -> None:
        operator = _made(kind)
        backends = triton_op.REGISTERED_BENCHMARKS.get(operator.name, {})
        names = triton_op.find_enabled_benchmarks(operator.mode, backends, [])
        providers = {word(name): name for name in names}
        sweep = Sweep(name=operator.name, baselines=frozenset(word(name) for name in names if backends[name].baseline))
        inputs = list(itertools.islice(operator.get_input_iter(), _MOST_INPUTS + 1))
        if len(inputs) > _MOST_INPUTS:
            self.remarks.append(f"only the first {_MOST_INPUTS} of its inputs are adopted")
        for index, example in enumerate(inputs[:_MOST_INPUTS]):
            x = word(_with_inputs(operator, index, example, triton_op))
            name = f"{operator.mode.value}-x={x}"
            sweep.add(
                SweptCase(
                    name=name if name not in sweep.cases else f"{name}-input={index}",
                    shape={"x": x, "mode": operator.mode.value},
                    axis=(),
                    dtype=dtype_of(_dtypes(operator.example_inputs)),
                    providers=tuple(providers),
                    call=_call(kind, providers, index, triton_op),
                )
            )
        self.sweeps[sweep.name] = sweep


def _made(kind: Any) -> Any:
    """The operator as tritonbench's own command makes it without options."""
    from tritonbench.utils.parser import get_parser

    name = kind.__module__.partition(".operators.")[2].partition(".")[0]
    options = get_parser().parse_args(["--op", name])
    if not torch.cuda.is_available():
        options.device = "cpu"
    return kind(options, [])


def _with_inputs(operator: Any, index: int, example: Any, triton_op: Any) -> Any:
    """The x value of an input, after giving it to the operator as tritonbench's own run does: on its device, in the
    precision that the operator requires.
    """
    operator._cur_input_id = index
    operator.example_inputs = example
    x = operator.get_x_val(example)
    operator.example_inputs = triton_op.input_cast(
        lambda value: isinstance(value, torch.Tensor), lambda tensor: tensor.to(operator.device), example
    )
    triton_op.apply_precision(operator, operator.tb_args.precision)
    return x


def _call(
    kind: Any, providers: Mapping[str, str], index: int, triton_op: Any
) -> Callable[[str, Mapping[str, Value]], Any]:
    """The function that tritonbench would time; a fresh operator each time, so that copies share no tensors."""

    def call(provider: str, shape: Mapping[str, Value]) -> Any:
        del shape
        operator = _made(kind)
        _with_inputs(operator, index, next(itertools.islice(operator.get_input_iter(), index, None)), triton_op)
        return operator._get_bm_func(providers[provider])

    return call


def _dtypes(example: Any) -> Iterator[torch.dtype]:
    values = example.values() if isinstance(example, dict) else example
    for value in values if isinstance(values, list | tuple) or isinstance(example, dict) else ():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield value.dtype


def _place(file: Path) -> tuple[Path, str]:
    """The folder that holds the file's outermost package, and the file's name as a module."""
    folder, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if ".operators." not in ".".join(["", *parts]) + ".":
        raise NotAdoptedError("tritonbench takes an operator's name from its module tritonbench.operators.NAME")
    return folder, ".".join(parts)
