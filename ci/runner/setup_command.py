"""`warpwatch runner setup`: sets up a machine as a trusted runner, or reports why it is not."""

import os
import pwd
import shlex
import sys
from pathlib import Path

import click

from ..push.upload import SettingsError
from .checks import examine
from .clock_lock import chosen_clocks
from .doctor import as_text
from .finding import State
from .host import Host
from .machine_steps import calibration_steps, first_steps, measure_trust
from .service_steps import secret_steps, service_of, unit_steps
from .setup_steps import SetupError, perform

_STOPPING = {"driver", "python", "torch", "compiler", "nvcc", "git", "asv project", "disk", "compute mode", "ECC"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of another user: ours may lead into our home


@click.command("setup")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The checkout with asv.conf.json; default: here.",
)
@click.option("--user", help="Who measures; default: the checkout's owner.")
@click.option("--to", "server", metavar="URL", envvar="WARPWATCH_URL", help="The dashboard that gets the results.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Holds the token for it (warpwatch token create).",
)
@click.option("--project", metavar="NAME", help="There; default: asv.conf.json's.")
@click.option(
    "--github",
    "repository",
    metavar="OWNER/NAME",
    help="Also take GitHub Actions jobs of this repository, or of an organization's.",
)
@click.option(
    "--github-group",
    "runner_group",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Of the organization's runner group; default: its first.",
)
@click.option(
    "--github-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Holds a GitHub token that may administer it (Administration: write).",
)
@click.option(
    "--actions-runner",
    type=click.Path(file_okay=False, path_type=Path),
    default="/opt/actions-runner",
    show_default=True,
    help="Where GitHub's runner program was unpacked.",
)
@click.option(
    "--sm-clock",
    type=click.IntRange(1),
    metavar="MHZ",
    help="To lock; default: what the card keeps under its heaviest load.",
)
@click.option(
    "--calendar", default="*-*-* 03:00", show_default=True, help="When to measure, as systemd.time(7) says it."
)
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="Of the A/A, as asv's; default: everything.")
@click.option("--runs", type=click.IntRange(0), default=4, show_default=True, help="Of the A/A; 0 leaves it out.")
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default="/",
    help="Write units below it, to look at them.",
)
@click.option("--dry-run", is_flag=True, help="Say exactly what would be done, and do nothing.")
def setup(
    folder: Path,
    user: str | None,
    server: str | None,
    token_file: Path | None,
    project: str | None,
    repository: str | None,
    runner_group: int | None,
    github_token_file: Path | None,
    actions_runner: Path,
    sm_clock: int | None,
    calendar: str,
    patterns: tuple[str, ...],
    runs: int,
    root: Path,
    dry_run: bool,
) -> None:
    """Set this machine up to measure.

    Checks and calibrates it, locks its clocks, installs services and runs an A/A. What is done already is passed over,
    so it may be run again, with other options too. What wants root and has none is listed at the end. Exit status: 0,
    or 1 where something is wrong or left.
    """
    say = click.echo
    try:
        host, where, owner = _hosts(folder.resolve(), user, root.resolve())
        _examined(host, dry_run)
        if owner.pw_uid == 0:
            say("  note           root will build and run the code of commits: --user NAME chooses somebody else")
        left = perform(first_steps(host), host, dry_run=dry_run, say=say)
        choices = chosen_clocks(host, sm_clock)
        for choice in choices:
            say(f"  clocks         {choice.card.name}: {choice.sm_mhz} MHz, {choice.why}")
        if not host.gpus.cards:
            say("  clocks         no GPU: the CPU twins are measured, and there are no clocks to lock")
        left += perform(calibration_steps(host, choices), host, dry_run=dry_run, say=say)
        if runs:
            measure_trust(host, choices, patterns, runs, dry_run)
        service = service_of(
            host,
            owner,
            choices,
            server=server,
            project=project,
            repository=repository,
            runner_group=runner_group,
            actions_runner=actions_runner,
            calendar=calendar,
        )
        left += perform(
            [*secret_steps(where, service, token_file, github_token_file), *unit_steps(where, service)],
            where,
            dry_run=dry_run,
            say=say,
        )
    except KeyError as error:
        raise click.ClickException(f"there is no user {user!r} here: sudo useradd --create-home {user}") from error
    except (SetupError, SettingsError) as error:
        raise click.ClickException(str(error)) from error
    if left:
        say(f"\nLeft, for it wants root: sudo {shlex.join(sys.argv)}\nwhich would:")
        for step in left:
            say("\n".join(f"  {line}" for shown in step.shows for line in shown.splitlines()))
        sys.exit(1)


def _examined(host: Host, dry_run: bool) -> None:
    findings = examine(host)
    click.echo(as_text(findings, shows_all=False))
    stopping = [each for each in findings if each.state is State.WRONG and each.check in _STOPPING]
    if stopping and not dry_run:
        raise SetupError(f"first mend what is wrong above: {', '.join(dict.fromkeys(e.check for e in stopping))}")


def _hosts(folder: Path, user: str | None, root: Path) -> tuple[Host, Host, pwd.struct_passwd]:
    """As the user who measures sees this machine; where units go; and that user."""
    owner = pwd.getpwnam(user) if user else pwd.getpwuid(folder.stat().st_uid)
    is_other = os.geteuid() == 0 and owner.pw_uid != 0
    if not is_other:
        return Host(folder=folder), Host(folder=folder, root=root), owner
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environ |= {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name, "PATH": _PATH}
    host = Host(folder=folder, environ=environ, as_user=("runuser", "-u", owner.pw_name, "--"))
    return host, Host(folder=folder, root=root), owner
