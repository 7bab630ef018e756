"""`warpwatch doctor`: find and explain faults of this machine as a runner.

Needs neither a store nor torch nor asv, and runs as `python -m warpwatch.ci.runner.doctor` too.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ..options import folder_option
from .checks import examine
from .finding import Finding, FindingState
from .host import Host


@click.command()
@folder_option
@click.option("--all", "shows_all", is_flag=True, help="Also list what is good or unknown.")
@click.option("--json", "as_json", is_flag=True, help="Print every finding as JSON.")
def doctor(folder: Path, shows_all: bool, as_json: bool) -> None:
    """List faults of this machine as a runner, why they matter, and the commands that fix them.

    Changes nothing. Exit status: 0 nothing is wrong (notes are possible), 1 something is.
    """
    findings = examine(Host(folder=folder.resolve()))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        click.echo(as_text(findings, shows_all=shows_all))
    sys.exit(any(finding.state is FindingState.WRONG for finding in findings))


def as_text(findings: Sequence[Finding], *, shows_all: bool) -> str:
    """Errors first, then notes; the number of other findings, or all of them."""
    lines = []
    for state in (FindingState.WRONG, FindingState.NOTE, FindingState.UNKNOWN, FindingState.GOOD):
        if state in {FindingState.GOOD, FindingState.UNKNOWN} and not shows_all:
            continue
        for finding in findings:
            if finding.state is not state:
                continue
            lines.append(f"{state.upper():8} {finding.check}: {finding.observed}   [{finding.source}]")
            if finding.why:
                lines.append(f"         why: {finding.why}")
            if finding.fix:
                lines.append(f"         fix: {finding.fix}")
    counts = Counter(finding.state for finding in findings)
    lines.append(
        ", ".join(
            f"{counts[state]} {state}"
            for state in (FindingState.WRONG, FindingState.NOTE, FindingState.GOOD, FindingState.UNKNOWN)
        )
    )
    return "\n".join(lines)


if __name__ == "__main__":
    doctor()
