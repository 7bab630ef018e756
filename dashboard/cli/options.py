"""Options that several commands share."""

import click

from .output import OutputFile

database_option = click.option(
    "--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE."
)
project_option = click.option("--project", metavar="NAME", help="Required if the store has several.")
output_option = click.option("--output", type=OutputFile(), help="Write to this file instead of printing.")
