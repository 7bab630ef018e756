"""`warpbench calibrate`: measure this machine's ceilings and keep them for the runs to come."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .. import machines
from ..calibration import ceiling_file
from ..calibration.ceiling_file import BANDWIDTH, L2_BANDWIDTH, Calibration
from ..quantity_text import quantity, share
from ..records import Ceilings

if TYPE_CHECKING:  # asv imports every module of the suite, also where rich is missing
    from rich.table import Table


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "calibrate",
        help="measure this machine's ceilings (memory, L2, each dtype) and store them",
        description="Measure what this machine's memory and math units keep up, some 20 s on a GPU, and store it by "
        "the GPU's UUID. Later runs on that GPU record shares of these ceilings and of the data sheet's.",
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU where torch sees one")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"store there instead of ${ceiling_file.FOLDER_VARIABLE} or {ceiling_file.default_folder()}",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure, print the table, store."""
    from rich.console import Console

    from .. import context  # torch takes seconds to import; --help need not wait

    device = arguments.device or context.device()
    if device == "cuda":
        if context.device() != "cuda":
            sys.exit("calibrate: torch sees no GPU here; --device cpu measures the processor")
        from ..calibration.gpu import calibrate
    else:
        from ..calibration.cpu import calibrate
    console = Console()
    with console.status("starting") as status:
        calibration = calibrate(lambda name: status.update(f"measuring {_title(name)}"))
    console.print(_table(calibration, machines.ceilings_of(calibration.name)))
    for ceiling in calibration.ceilings:
        console.print(f"{_title(ceiling.name)}: {ceiling.method}", highlight=False)
    for name, reason in calibration.left_out.items():
        console.print(f"{_title(name)} left out: {reason}", highlight=False)
    if calibration.note:
        console.print(f"Note: {calibration.note}", highlight=False)
    try:
        file = ceiling_file.save(calibration, arguments.output)
    except ValueError as error:
        sys.exit(f"calibrate: nothing stored: {error}")
    console.print(f"Stored in {file}", highlight=False, soft_wrap=True)


def _table(calibration: Calibration, peaks: Ceilings | None) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=calibration.name, title_justify="left", box=box.SIMPLE)
    table.add_column("ceiling")
    for column in ("measured", "data sheet", "share", "spread", "SM clock"):
        table.add_column(column, justify="right", no_wrap=True)
    for ceiling in calibration.ceilings:
        peak = _peak(ceiling.name, peaks)
        clock = quantity(ceiling.sm_clock_hz, "Hz") if ceiling.sm_clock_hz else "-"
        table.add_row(
            _title(ceiling.name),
            quantity(ceiling.rate, _unit(ceiling.name)) + ("" if ceiling.settled else " ↓"),
            quantity(peak, _unit(ceiling.name)) if peak else "-",
            share(ceiling.rate / peak) if peak else "-",
            share(ceiling.spread),
            clock,
        )
    if not all(ceiling.settled for ceiling in calibration.ceilings):
        table.caption = "↓ still falling when the measurement began"
    return table


def _peak(name: str, peaks: Ceilings | None) -> float | None:
    if peaks is None or name == L2_BANDWIDTH:  # which no data sheet states
        return None
    return peaks.bandwidth_bps if name == BANDWIDTH else peaks.flops.get(name)


def _title(name: str) -> str:
    return {BANDWIDTH: "memory", L2_BANDWIDTH: "L2 reads"}.get(name, name)


def _unit(name: str) -> str:
    if name in (BANDWIDTH, L2_BANDWIDTH):
        return "B/s"
    return "OP/s" if name.startswith("int") else "FLOP/s"
