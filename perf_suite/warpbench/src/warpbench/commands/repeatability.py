"""`warpbench repeatability FILE...`: how well separate runs of one commit agree, as a table."""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..repeatability import Agreement, Series, absences, agreements, read_run, share_within

_SHORT_S = 10e-6
_LIMIT, _SHORT_LIMIT = 0.005, 0.015  # what this suite sets itself
_WORST = 5


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's options."""
    command = commands.add_parser("repeatability", help="how well asv result files of one commit agree")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="asv's result files, plain or .gz")
    command.add_argument("--metric", default="latency", help="of track_<metric>; %(default)s unless told")
    command.set_defaults(run=run, parser=command)


def run(arguments: argparse.Namespace) -> None:
    """Print the table as Markdown."""
    try:
        print(table([read_run(file, f"track_{arguments.metric}") for file in arguments.files]))
    except ValueError as error:
        arguments.parser.error(str(error))


def table(runs: Sequence[Mapping[Series, float]]) -> str:
    """Rows of long and short calls, then the least repeatable ones, then those left out because a run lacks them."""
    found = agreements(runs)
    long = [agreement for agreement in found if agreement.mean > _SHORT_S]
    short = [agreement for agreement in found if agreement.mean <= _SHORT_S]
    lines = [
        f"| {len(runs)} runs | combinations | median | 95 % of them within | largest | share within the limit |",
        "|---|---|---|---|---|---|",
        _row("above 10 µs", long, _LIMIT),
        _row("10 µs and below", short, _SHORT_LIMIT),
        "",
        "The least repeatable:",
        "",
        "| workload | implementation | mean | variation |",
        "|---|---|---|---|",
    ]
    for agreement in found[:_WORST]:
        series = agreement.series
        lines.append(
            f"| {series.workload} | {series.implementation} | {agreement.mean * 1e6:.2f} µs "
            f"| {agreement.variation:.2%} |"
        )
    return "\n".join([*lines, *_left_out(runs)])


def _left_out(runs: Sequence[Mapping[Series, float]]) -> list[str]:
    found = absences(runs)
    if not found:
        return []
    lines = ["", "Left out:", "", "| workload | implementation | has no number in run |", "|---|---|---|"]
    return lines + [
        f"| {series.workload} | {series.implementation} | {', '.join(str(place + 1) for place in places)} |"
        for series, places in found.items()
    ]


def _row(name: str, found: list[Agreement], limit: float) -> str:
    if not found:
        return f"| {name} | 0 | | | | |"
    variations = sorted(agreement.variation for agreement in found)
    most = variations[max(0, -(-len(variations) * 95 // 100) - 1)]
    within = share_within(found, limit)
    return (
        f"| {name} | {len(found)} | {statistics.median(variations):.2%} | {most:.2%} | {variations[-1]:.2%} "
        f"| {within:.1%} within {limit:.1%} |"
    )
