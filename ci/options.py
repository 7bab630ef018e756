"""Options that several commands share; those of the store are in the dashboard's `cli/output.py`."""

from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

folder_option = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder of asv.conf.json; default: here.",
)
asv_project_option = click.option("--project", metavar="NAME", help="The store's project; default: asv.conf.json's.")
asv_arguments_option = click.option(
    "--asv", "arguments", multiple=True, metavar="ARGUMENT", help="A further argument of asv run."
)
threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Smallest relative change that matters, of every series; default: warpwatch.toml's, else "
    "WARPWATCH_THRESHOLD, else 0.02.",
)
policy_option = click.option("--policy", "policy_file", type=_FILE, help="A warpwatch.toml; default: that of BASE.")
