"""The one command `warpwatch`: each sub-command lives with the thing it does and is only listed here."""

import click

from warpwatch.ci.alert import alert
from warpwatch.dashboard.benchstat.command import benchstat
from warpwatch.dashboard.changepoints_filter import changepoints_command
from warpwatch.dashboard.commands import check, import_, report
from warpwatch.dashboard.exports.command import export
from warpwatch.dashboard.serving import serve
from warpwatch.dashboard.token_commands import token


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="warpwatch")
def main() -> None:
    """How fast each GPU kernel is at each commit, and which commit made it slower."""


for command in (import_, check, report, export, benchstat, changepoints_command, alert, serve, token):
    main.add_command(command)

if __name__ == "__main__":
    main()
