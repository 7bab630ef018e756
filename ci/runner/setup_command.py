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
from .finding import FindingState
from .host import Host
from .service_steps import secret_steps, service_of, unit_steps
from .setup_steps import SetupError, calibration_steps, first_steps, perform, run_aa_test

_STOPPING = {"driver", "python", "torch", "compiler", "nvcc", "git", "asv project", "disk", "compute mode", "ECC"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # another user's; ours may name our home


@click.command("setup")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The checkout with asv.conf.json; default: here.",
)
@click.option("--user", help="The user that measures; default: the checkout's owner.")
@click.option("--to", "server", metavar="URL", envvar="WARPWATCH_URL", help="The dashboard that receives the results.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a token of the dashboard (warpwatch token create).",
)
@click.option("--project", metavar="NAME", help="The dashboard's project; default: asv.conf.json's.")
@click.option(
    "--github",
    "repository",
    metavar="OWNER/NAME",
    help="Also take GitHub Actions jobs of this repository or organization.",
)
@click.option(
    "--github-group",
    "runner_group",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="The organization's runner group; default: its first.",
)
@click.option(
    "--github-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a GitHub token that may administer it (Administration: write).",
)
@click.option(
    "--actions-runner",
    type=click.Path(file_okay=False, path_type=Path),
    default="/opt/actions-runner",
    show_default=True,
    help="Folder with GitHub's runner program.",
)
@click.option(
    "--sm-clock",
    type=click.IntRange(1),
    metavar="MHZ",
    help="The SM clock to lock; default: one that the GPU keeps under its heaviest load.",
)
@click.option(
    "--calendar", default="*-*-* 03:00", show_default=True, help="When to measure, in the syntax of systemd.time(7)."
)
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="As asv's, for the A/A test; default: all.")
@click.option("--runs", type=click.IntRange(0), default=4, show_default=True, help="Runs of the A/A test; 0 skips it.")
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default="/",
    help="Write units below this folder, for inspection.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
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

    Checks and calibrates it, locks its clocks, installs services and runs an A/A test. May be run again, with other
    options too: finished steps are skipped. Without root, the steps that need it are listed at the end. Exit status:
    0, or 1 if something is wrong or left to do.
    """
    say = click.echo
    try:
        host, target, owner = _hosts(folder.resolve(), user, root.resolve())
        _check_machine(host, dry_run)
        if owner.pw_uid == 0:
            say("  note           root will build and run the code of commits: choose another user with --user NAME")
        left = perform(first_steps(host), host, dry_run=dry_run, say=say)
        choices = chosen_clocks(host, sm_clock)
        for choice in choices:
            say(f"  clocks         {choice.gpu.name}: {choice.sm_mhz} MHz, {choice.why}")
        if not host.gpus.devices:
            say("  clocks         no GPU: the CPU twins are measured, and there are no clocks to lock")
        left += perform(calibration_steps(host, choices), host, dry_run=dry_run, say=say)
        if runs:
            run_aa_test(host, choices, patterns, runs, dry_run)
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
            [*secret_steps(target, service, token_file, github_token_file), *unit_steps(target, service)],
            target,
            dry_run=dry_run,
            say=say,
        )
    except KeyError as error:
        raise click.ClickException(f"there is no user {user!r} here: sudo useradd --create-home {user}") from error
    except (SetupError, SettingsError) as error:
        raise click.ClickException(str(error)) from error
    if left:
        say(f"\nLeft to do as root: sudo {shlex.join(sys.argv)}\nwhich would:")
        for step in left:
            say("\n".join(f"  {line}" for shown in step.shows for line in shown.splitlines()))
        sys.exit(1)


def _check_machine(host: Host, dry_run: bool) -> None:
    findings = examine(host)
    click.echo(as_text(findings, shows_all=False))
    stopping = [
        finding.check for finding in findings if finding.state is FindingState.WRONG and finding.check in _STOPPING
    ]
    if stopping and not dry_run:
        raise SetupError(f"first fix the errors above: {', '.join(dict.fromkeys(stopping))}")


def _hosts(folder: Path, user: str | None, root: Path) -> tuple[Host, Host, pwd.struct_passwd]:
    """The machine as the measuring user sees it, the machine where units are installed, and that user."""
    owner = pwd.getpwnam(user) if user else pwd.getpwuid(folder.stat().st_uid)
    is_other = os.geteuid() == 0 and owner.pw_uid != 0
    if not is_other:
        return Host(folder=folder), Host(folder=folder, root=root), owner
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environ |= {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name, "PATH": _PATH}
    host = Host(folder=folder, environ=environ, as_user=("runuser", "-u", owner.pw_name, "--"))
    return host, Host(folder=folder, root=root), owner
