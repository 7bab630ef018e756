"""`python -m perf_suite bench OPERATOR`: one operator at any shape, measured once, as a table and as a file."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from warpbench.protocol import OPTIONAL_METRICS, Outcome
from warpbench.watched_worker import Limits, WorkerStartError

from ..one_off.ad_hoc import DTYPES, BadRequestError, operators, options
from ..one_off.export import check_suffix
from ..one_off.kernel_benchmark import KernelBenchmark
from ..one_off.result import BenchmarkResult


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command, with a parser an operator whose options are that operator's."""
    parser = commands.add_parser(
        "bench",
        help="measure one operator at any shape, once",
        description="Measure one operator of the catalogue at a shape of your own: every implementation behind the "
        "correctness gate, in a process of its own. Nothing is recorded but what --export writes.",
    )
    of_operator = parser.add_subparsers(dest="operator", required=True, metavar="OPERATOR")
    for operator in operators():
        _add_operator(of_operator, operator)


def _add_operator(parsers: argparse._SubParsersAction, operator: str) -> None:
    parser = parsers.add_parser(operator, help=f"python -m perf_suite bench {operator} --help lists its options")
    shape = parser.add_argument_group("shape")
    for option in options(operator):
        flag = "--" + option.name.replace("_", "-")
        if option.is_flag:
            shape.add_argument(flag, action=argparse.BooleanOptionalAction, default=option.default)
        else:
            told = "required" if option.required else f"default {option.default or 'follows from the others'}"
            shape.add_argument(flag, type=int, required=option.required, default=option.default, metavar="N", help=told)
    parser.add_argument("--dtype", choices=DTYPES, help="default: fp16 on a GPU, fp32 on a CPU")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU where torch sees one")
    parser.add_argument(
        "--implementation",
        action="append",
        default=[],
        metavar="NAME",
        help="only this one; may be repeated; without baselines there is nothing to compare with",
    )
    parser.add_argument("--warm", action="store_true", help="also with inputs still in the L2 (--metrics warm_latency)")
    parser.add_argument(
        "--metrics", nargs="+", choices=OPTIONAL_METRICS, default=[], help="what takes device time of its own"
    )
    parser.add_argument("--quick", action="store_true", help="a handful of samples, to see that it works")
    parser.add_argument(
        "--limit",
        type=float,
        default=Limits().job_s,
        metavar="SECONDS",
        help="for one implementation, default %(default)g",
    )
    parser.add_argument(
        "--export", action="append", type=Path, default=[], metavar="FILE", help=".json or .csv; may be repeated"
    )
    parser.set_defaults(run=run, fail=parser.error)


def run(arguments: argparse.Namespace) -> None:
    """Measure, print, export. Exit status 2 for a request that cannot be, 1 if an implementation failed."""
    fail: Callable[[str], None] = arguments.fail
    metrics = {*arguments.metrics, *(["warm_latency"] if arguments.warm else [])}
    try:
        for path in arguments.export:
            check_suffix(path)
            if not path.resolve().parent.is_dir():
                raise BadRequestError(f"--export: there is no folder {path.resolve().parent}")
        if arguments.limit <= 0:
            raise BadRequestError(f"--limit must be more than 0 seconds, got {arguments.limit:g}")
        benchmark = KernelBenchmark(
            arguments.operator,
            dtype=arguments.dtype,
            device=arguments.device,
            implementations=arguments.implementation,
            metrics=[metric for metric in OPTIONAL_METRICS if metric in metrics],
            quick=arguments.quick,
            **{option.name: getattr(arguments, option.name) for option in options(arguments.operator)},
        )
        result = _measured(benchmark, Limits(job_s=arguments.limit))
    except BadRequestError as error:
        fail(str(error))
    except WorkerStartError as error:
        sys.exit(f"bench: {error}")
    print(result.table())
    for path in arguments.export:
        print(f"written: {result.export(path)}")
    if result.failed:
        sys.exit(1)


def _measured(benchmark: KernelBenchmark, limits: Limits) -> BenchmarkResult:
    """With a progress bar on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def on_outcome(outcome: Outcome) -> None:
            waiting = benchmark.waiting_after(outcome)
            done = int(progress.tasks[0].completed) + 1
            following = f"measuring {waiting[0]}" if waiting else "visiting the controls"
            progress.update(task, completed=done, total=done + len(waiting), description=following)

        return benchmark.run(limits=limits, on_outcome=on_outcome)
