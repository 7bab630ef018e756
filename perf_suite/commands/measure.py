"""`python -m perf_suite measure [-b OPERATOR]`: the catalogue on this machine as a table; recorded nowhere."""

import argparse
import sys

from perf_suite.catalogue import catalogue_jobs
from warpbench.protocol import Outcome
from warpbench.records import Status
from warpbench.session import measure

from ..catalogue import OPERATORS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's options."""
    command = commands.add_parser("measure", help="measure the catalogue on this machine, record nothing")
    command.add_argument("-b", "--bench", choices=OPERATORS, action="append", help="only this operator")
    command.add_argument("--quick", action="store_true", help="a handful of samples, to see that it works")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure the chosen operators, printing each combination as it is finished; exit status 1 if one failed."""
    results = measure(catalogue_jobs(arguments.bench or OPERATORS, quick=arguments.quick), on_outcome=_print)
    print(f"on {results.run.gpu.name if results.run.gpu else results.run.cpu.model}")
    if any(outcome.measurement.status is Status.FAILED for outcome in results.outcomes):
        sys.exit("some combinations failed; their reasons stand above")


def _print(outcome: Outcome) -> None:
    m = outcome.measurement
    if m.latency_s is None:
        result = f"{m.status}: {m.reason}"
    else:
        backend = f"  {m.backend}" if m.backend else ""
        result = f"{m.latency_s * 1e6:10.2f} µs  n={m.sample_count}  error {m.relative_error:.1e}{backend}"
        if m.inaccuracy is not None:
            result += f"  {m.reason}"
    print(f"{m.workload:45} {m.implementation:14} {result}", flush=True)
