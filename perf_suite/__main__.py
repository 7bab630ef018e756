"""The suite without asv: `python -m perf_suite measure [-b OPERATOR]` measures and prints a table."""

import argparse
import sys

from .protocol import Outcome
from .records import Status
from .session import measure
from .workloads import OPERATORS


def main() -> None:
    """Measure the chosen operators on this machine, printing each combination as it is finished."""
    parser = argparse.ArgumentParser(prog="python -m perf_suite", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("measure", help="measure the catalogue on this machine, record nothing")
    command.add_argument("-b", "--bench", choices=OPERATORS, action="append", help="only this operator")
    command.add_argument("--quick", action="store_true", help="a handful of samples, to see that it works")
    arguments = parser.parse_args()
    failed = False
    for operator in arguments.bench or OPERATORS:
        print(operator)
        results = measure(operator, benchmark=operator, quick=arguments.quick, on_outcome=_print)
        print(f"  on {results.run.gpu.name if results.run.gpu else results.run.cpu.model}\n")
        failed |= any(outcome.measurement.status is Status.FAILED for outcome in results.outcomes)
    if failed:
        sys.exit("some combinations failed; their reasons stand above")


def _print(outcome: Outcome) -> None:
    m = outcome.measurement
    if m.latency_s is None:
        result = f"{m.status}: {m.reason}"
    else:
        backend = f"  {m.backend}" if m.backend else ""
        result = f"{m.latency_s * 1e6:10.2f} µs  n={m.sample_count}  error {m.relative_error:.1e}{backend}"
    print(f"  {m.workload:42} {m.implementation:14} {result}", flush=True)


if __name__ == "__main__":
    main()
