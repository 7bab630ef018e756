"""`warpwatch doctor`: finds what is wrong with this machine as a runner, and how to fix it.

It needs neither a store nor torch nor asv, and runs as `python -m warpwatch.ci.runner.doctor` too.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from .checks import examine
from .finding import Finding, State
from .host import Host


@click.command()
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Of asv.conf.json; default: here.",
)
@click.option("--all", "shows_all", is_flag=True, help="Tell also what is good.")
@click.option("--json", "as_json", is_flag=True, help="For programs: every finding.")
def doctor(folder: Path, shows_all: bool, as_json: bool) -> None:
    """List what is wrong with this machine as a runner, why it matters, and the command that fixes it.

    It changes nothing. Exit status: 0 nothing is wrong (there may be notes), 1 something is.
    """
    findings = examine(Host(folder=folder.resolve()))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in findings], indent=1))
    else:
        click.echo(as_text(findings, shows_all=shows_all))
    sys.exit(any(each.state is State.WRONG for each in findings))


def as_text(findings: Sequence[Finding], *, shows_all: bool) -> str:
    """Errors first, then notes; the number of other findings, or all of them."""
    lines = []
    for state in (State.WRONG, State.NOTE, State.UNKNOWN, State.GOOD):
        if state in {State.GOOD, State.UNKNOWN} and not shows_all:
            continue
        for each in (each for each in findings if each.state is state):
            lines.append(f"{state.upper():8} {each.check}: {each.found}   [{each.looked_at}]")
            if each.why:
                lines.append(f"         why: {each.why}")
            if each.fix:
                lines.append(f"         fix: {each.fix}")
    counts = Counter(each.state for each in findings)
    lines.append(
        ", ".join(f"{counts[state]} {state}" for state in (State.WRONG, State.NOTE, State.GOOD, State.UNKNOWN))
    )
    return "\n".join(lines)


if __name__ == "__main__":
    doctor()
