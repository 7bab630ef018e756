"""`warpwatch runner`: its sub-commands live with what they do."""

import click

from warpwatch.ci.alone_command import alone
from warpwatch.ci.runner.clock_commands import locked, reset
from warpwatch.ci.runner.measure import measure
from warpwatch.ci.runner.register import register
from warpwatch.ci.runner.setup_command import setup
from warpwatch.ci.runner.trust_command import trust


@click.group()
def runner() -> None:
    """Set this machine up to measure, and measure."""


for _command in (setup, trust, measure, alone, register, locked, reset):
    runner.add_command(_command)
