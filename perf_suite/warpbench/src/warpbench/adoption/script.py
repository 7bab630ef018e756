"""A benchmark file run as a script, up to what it would measure: perf_report's marks and Liger-Kernel's sweeps.

The file runs as its own project runs it: its folder on sys.path, `__name__` of a module, and the body of
`if __name__ == "__main__":` without arguments. What would measure is replaced: triton.testing's do_bench and
do_bench_cudagraph, Mark.run, and `run_benchmarks(bench_test_fn=…)` of Liger-Kernel's utils.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import torch

from . import timers
from .sweep import Sweep, SweptCase, Value, case_name, dtype_of, scalars, unnamed, word

_LIGER_PARAMETERS = {"bench_test_fn", "kernel_providers", "x_values"}
_OWN_PARAMETERS_OF_RUN = {"show_plots", "print_data", "save_path", "return_df", "diff_col", "save_precision"}


class Script:
    """A file that has run."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.sweeps: dict[str, Sweep] = {}
        self.remarks: list[str] = []
        self._marks: list[Any] = []
        self._ran: set[int] = set()
        self._modules: dict[str, types.ModuleType] = {}
        self._defaults = (torch.get_default_dtype(), torch.get_default_device())

    def run(self) -> None:
        """Run the file. Raises what its own statements raise; what its main part raises becomes a remark."""
        tree = ast.parse(self.file.read_text(), str(self.file))
        module = types.ModuleType(word(self.file.stem))
        module.__file__ = str(self.file)
        guards = [index for index, node in enumerate(tree.body) if _is_main_guard(node)]
        head = tree.body[: guards[0]] if guards else tree.body
        tail = [part for node in tree.body[len(head) :] for part in (node.body if _is_main_guard(node) else [node])]
        with self.surroundings(), _replaced("Mark", "__init__", self._marking), _replaced("Mark", "run", self._running):
            sys.modules[module.__name__] = module
            try:
                _execute(head, self.file, module)
                for name, value in list(vars(module).items()):
                    if _is_liger_sweep(value):
                        setattr(module, name, self._sweeping)
                for other in list(sys.modules.values()):
                    if _is_liger_sweep(vars(other).get("run_benchmarks")):
                        vars(other)["run_benchmarks"] = self._sweeping
                _execute(tail, self.file, module)
            except timers.DirectCallError:
                self.remarks.append("it calls do_bench outside a function that perf_report or run_benchmarks knows")
            except SystemExit as ended:
                self.remarks.append(f"its main part ended early: {ended.code}")
            except Exception as error:
                if not (self._marks or self.sweeps):
                    raise
                self.remarks.append(f"its main part ended with {type(error).__name__}: {error}")
        for mark in self._marks:
            if id(mark) not in self._ran:  # the main part did not get there, or runs it on request
                self._run_mark(mark, {})

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """The process as the file expects it: its folder on sys.path, no arguments, stand-ins for the timers.

        Modules of the file's folder and torch's defaults are the file's own: another file may have others of that name.
        """
        path, arguments = list(sys.path), sys.argv
        defaults = (torch.get_default_dtype(), torch.get_default_device())
        outside = {name: sys.modules.pop(name) for name in self._modules if name in sys.modules}
        sys.path.insert(0, str(self.file.parent))
        sys.argv = [str(self.file)]
        sys.modules.update(self._modules)
        _set_defaults(self._defaults)
        try:
            with timers.replaced():
                yield
        finally:
            self._defaults = (torch.get_default_dtype(), torch.get_default_device())
            _set_defaults(defaults)
            self._modules = {name: module for name, module in sys.modules.items() if self._is_own(module)}
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(outside)
            sys.path[:], sys.argv = path, arguments

    def _is_own(self, module: types.ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and Path(file).parent == self.file.parent and "." not in module.__name__

    def _marking(self, real: Callable[..., None]) -> Callable[..., None]:
        def mark(this: Any, *arguments: Any, **keywords: Any) -> None:
            real(this, *arguments, **keywords)
            self._marks.append(this)

        return mark

    def _running(self, real: Callable[..., Any]) -> Callable[..., Any]:
        del real

        def run(this: Any, *_: Any, **keywords: Any) -> None:
            self._run_mark(this, {name: each for name, each in keywords.items() if name not in _OWN_PARAMETERS_OF_RUN})

        return run

    def _run_mark(self, mark: Any, keywords: Mapping[str, Any]) -> None:
        """The cases of one perf_report function, as Mark.run goes through them."""
        self._ran.add(id(mark))
        sweep = self._sweep(mark.fn.__name__)
        benches = mark.benchmarks if isinstance(mark.benchmarks, list | tuple) else [mark.benchmarks]
        for bench in benches:
            fixed = {**bench.args, **keywords}
            providers = {word(value): value for value in bench.line_vals}
            for x in bench.x_vals:
                values = x if isinstance(x, list | tuple) else [x] * len(bench.x_names)
                axis = dict(zip(bench.x_names, values, strict=True))
                everything = {**axis, **fixed}
                sweep.add(
                    SweptCase(
                        name=case_name((name, value) for name, value in everything.items() if _is_nameable(value)),
                        shape=scalars(everything),
                        axis=tuple(axis) if _are_plain(axis) else (),
                        dtype=dtype_of(everything.values()),
                        providers=tuple(providers),
                        call=_mark_call(mark.fn, bench.line_arg, providers, axis, fixed),
                        unnamed=unnamed({name: each for name, each in everything.items() if not _is_nameable(each)}),
                    )
                )

    def _sweeping(
        self,
        bench_test_fn: Callable[..., Any],
        kernel_name: str,
        metric_name: str,
        metric_unit: str,
        x_name: str,
        x_label: str,
        x_values: list[Any],
        kernel_providers: list[str],
        kernel_operation_modes: list[str | None] | None = None,
        extra_benchmark_configs: list[dict[str, Any]] | None = None,
        overwrite: bool = False,
        **_: Any,
    ) -> None:
        """In place of Liger-Kernel's run_benchmarks, with its parameters."""
        del metric_unit, x_label, overwrite
        if metric_name != "speed":
            return  # memory: warpbench records the peak of each call
        sweep = self._sweep(kernel_name)
        providers = {word(value): value for value in kernel_providers}
        for config in extra_benchmark_configs or [{}]:
            for mode in kernel_operation_modes or [None]:
                for x in x_values:
                    modes = {"mode": mode} if mode else {}
                    everything = {**modes, x_name: x, **config}
                    parts = [("" if name == "mode" else name, value) for name, value in everything.items()]
                    sweep.add(
                        SweptCase(
                            name=case_name((name, value) for name, value in parts if _is_nameable(value)),
                            shape=scalars(everything),
                            axis=(x_name,) if _are_plain({x_name: x}) else (),
                            dtype=dtype_of(everything.values()),
                            providers=tuple(providers),
                            call=_liger_call(bench_test_fn, providers, mode, config, x_name, x),
                            unnamed=unnamed({name: each for name, each in parts if not _is_nameable(each)}),
                        )
                    )

    def _sweep(self, name: str) -> Sweep:
        return self.sweeps.setdefault(name, Sweep(name=name))


def _mark_call(
    function: Callable[..., Any], line: str, providers: Mapping[str, Any], axis: dict[str, Any], fixed: dict[str, Any]
) -> Callable[[str, Mapping[str, Value]], Any]:
    def call(provider: str, shape: Mapping[str, Value]) -> Any:
        chosen = {name: shape.get(name, value) if _are_plain({name: value}) else value for name, value in axis.items()}
        return function(**chosen, **{line: providers[provider]}, **fixed)

    return call


def _liger_call(
    function: Callable[..., Any], providers: Mapping[str, str], mode: str | None, config: Any, x_name: str, x: Any
) -> Callable[[str, Mapping[str, Value]], Any]:
    def call(provider: str, shape: Mapping[str, Value]) -> Any:
        return function(
            types.SimpleNamespace(  # of SingleBenchmarkRunInput's fields
                x=shape.get(x_name, x) if _are_plain({x_name: x}) else x,
                kernel_provider=providers[provider],
                kernel_operation_mode=mode,
                extra_benchmark_config=config,
            )
        )

    return call


def _is_nameable(value: Any) -> bool:
    return bool(scalars({"value": value}))


def _are_plain(values: Mapping[str, Any]) -> bool:
    """Whether a case's record gives back the values themselves."""
    return all(isinstance(value, int | float | str) for value in values.values())


def _is_main_guard(node: ast.stmt) -> TypeGuard[ast.If]:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and "__name__" in ast.unparse(node.test)
        and "__main__" in ast.unparse(node.test)
    )


def _is_liger_sweep(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and set(inspect.signature(value).parameters) >= _LIGER_PARAMETERS


def _execute(body: list[ast.stmt], file: Path, module: types.ModuleType) -> None:
    flags = annotations.compiler_flag if vars(module).get("annotations") is annotations else 0  # the file's, not ours
    code = compile(ast.Module(body=body, type_ignores=[]), str(file), "exec", flags=flags, dont_inherit=True)
    exec(code, vars(module))


def _set_defaults(defaults: tuple[torch.dtype, torch.device]) -> None:
    dtype, device = defaults
    torch.set_default_dtype(dtype)
    if torch.get_default_device() != device:
        torch.set_default_device(None if device.type == "cpu" else device)


@contextlib.contextmanager
def _replaced(kind: str, name: str, replace: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A method of one of triton.testing's classes, replaced."""
    from triton import testing

    owner = getattr(testing, kind)
    real = getattr(owner, name)
    setattr(owner, name, replace(real))
    try:
        yield
    finally:
        setattr(owner, name, real)
