"""`warpbench run [OPERATOR]`: measure cases or a shape of one's own, once, as a table and as a file."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..benchmark import KernelBenchmark
from ..one_off.ad_hoc import DTYPES, BadRequestError, options
from ..one_off.export import check_suffix, export
from ..one_off.one_off import OneOff
from ..one_off.result import BenchmarkResult
from ..project import project_here
from ..protocol import OPTIONAL_METRICS, Outcome
from ..watched_worker import Limits, WorkerStartError


def add_parser(commands: argparse._SubParsersAction) -> None:
    """List the sub-command. Its options depend on the operator, so `run` parses them itself."""
    commands.add_parser("run", help="measure an operator, or all, once", add_help=False)


def run(words: list[str]) -> None:
    """Measure, print, export. Exit status 2 for a request that cannot be, 1 if an implementation failed."""
    operator = words[0] if words and not words[0].startswith("-") else None
    words = words[1:] if operator else words
    if operator is None and words in (["--help"], ["-h"]):
        _parser(None, None).print_help()
        return
    project = project_here()
    kinds = [project.operator(operator)] if operator else list(project.operators.values())
    parser = _parser(operator, kinds[0] if operator else None)
    parsed = parser.parse_args(words)
    results: list[BenchmarkResult] = []
    for kind in kinds:
        try:
            results += _measured(kind, parsed)
        except BadRequestError as error:
            parser.error(str(error))
        except WorkerStartError as error:
            sys.exit(f"warpbench run: {error}")
    for path in parsed.export:
        print(f"written: {export(results, path)}")
    if any(result.failed for result in results):
        sys.exit(1)


def _parser(operator: str | None, kind: type[KernelBenchmark] | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"warpbench run {operator or '[OPERATOR]'}",
        description="Measure an operator's cases, or a shape of your own; without an operator, each one's cases. Every "
        "implementation runs behind the correctness gate in a process of its own. Nothing is recorded but what "
        "--export writes. `warpbench run OPERATOR --help` lists the operator's shape.",
    )
    if kind is not None:
        parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only this; may be repeated")
        if kind.case is not None:
            shape = parser.add_argument_group("shape", "a shape of your own instead of the operator's cases")
            for option in options(kind):
                flag = "--" + option.name.replace("_", "-")
                if option.is_flag:
                    shape.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
                else:
                    default = "required" if option.required else f"default {option.default or 'by the others'}"
                    shape.add_argument(flag, type=int, metavar="N", help=default)
            shape.add_argument("--dtype", choices=DTYPES, help="default: fp16 on a GPU, fp32 on a CPU")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU where torch sees one")
    parser.add_argument(
        "--implementation",
        action="append",
        default=[],
        metavar="NAME",
        help="only this one; may be repeated; without baselines there is nothing to compare with",
    )
    parser.add_argument(
        "--metrics", nargs="+", choices=OPTIONAL_METRICS, default=[], help="metrics that take device time of their own"
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
    return parser


def _measured(kind: type[KernelBenchmark], parsed: argparse.Namespace) -> Sequence[BenchmarkResult]:
    """The results of one operator, printed. Raises BadRequestError, WorkerStartError."""
    for path in parsed.export:
        check_suffix(path)
        if not path.resolve().parent.is_dir():
            raise BadRequestError(f"--export: there is no folder {path.resolve().parent}")
    if parsed.limit <= 0:
        raise BadRequestError(f"--limit must be more than 0 seconds, got {parsed.limit:g}")
    shape = {option.name: getattr(parsed, option.name, None) for option in options(kind)}
    one_off = OneOff(
        kind,
        cases=getattr(parsed, "case", ()),
        dtype=getattr(parsed, "dtype", None),
        device=parsed.device,
        implementations=parsed.implementation,
        metrics=[metric for metric in OPTIONAL_METRICS if metric in parsed.metrics],
        quick=parsed.quick,
        **{name: value for name, value in shape.items() if value is not None},
    )
    results = _with_progress(one_off, Limits(job_s=parsed.limit))
    for result in results:
        print(result.table())
    return results


def _with_progress(one_off: OneOff, limits: Limits) -> list[BenchmarkResult]:
    """With a progress bar on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def on_outcome(outcome: Outcome) -> None:
            waiting = one_off.waiting_after(outcome)
            done = int(progress.tasks[0].completed) + 1
            following = f"measuring {waiting[0]}" if waiting else "visiting the controls"
            progress.update(task, completed=done, total=done + len(waiting), description=following)

        return one_off.run(limits=limits, on_outcome=on_outcome)
