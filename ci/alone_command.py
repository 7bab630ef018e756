"""`warpwatch runner alone`: run a command while nothing else of warpwatch measures on this GPU."""

import subprocess
import sys

import click

from warpwatch.ci.host_lock import HeldLock, HostLockError, gpu_lock


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS", help="Then give up; default: never.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def alone(wait_s: float | None, command: tuple[str, ...]) -> None:
    """Run a command alone on this GPU.

    Waits until no gate, bisect or other `warpwatch runner alone` measures on this GPU, or without a GPU on this host.
    Exit status: the command's; 75 if another measured for too long, and 127 if it cannot be started.
    """
    try:
        with gpu_lock(wait_s=wait_s, say=lambda line: click.echo(line, err=True)) as held:
            done = _run(command, held)
    except HostLockError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(75)  # EX_TEMPFAIL: try again
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def _run(command: tuple[str, ...], held: HeldLock) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, pass_fds=held.descriptors)
    except OSError as error:
        click.echo(f"Error: {command[0]}: {error.strerror}", err=True)
        sys.exit(127)
