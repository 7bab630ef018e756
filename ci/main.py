"""The one command `warpwatch`: each sub-command lives with the thing it does and is only listed here.

A command is imported when it is called: one that takes a moment should not wait for what the others need.
"""

import gc
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from warpwatch.dashboard.exit_status import FAILED, INTERRUPTED, PIPE_CLOSED, discard_stdout, storage_error

_ROOM = "warpwatch"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"  # which OpenBLAS reads once, when NumPy loads it
_COMMANDS = {
    "import": "dashboard.import_command:import_",
    "push": "ci.push.command:push",
    "check": "ci.check_command:check",
    "report": "dashboard.commands:report",
    "export": "dashboard.exports.command:export",
    "export-site": "dashboard.site.command:export_site",
    "benchstat": "dashboard.benchstat.command:benchstat",
    "changepoints": "dashboard.changepoints_filter:changepoints_command",
    "compact": "dashboard.compact_command:compact_command",
    "gate": "ci.gate.command:gate",
    "report-gate": "ci.reports.command:report_gate",
    "accept": "ci.acceptance.command:accept",
    "policy": "ci.policy.command:policy",
    "bisect": "ci.bisect.command:bisect",
    "plan-gate": "ci.pull_requests.plan_command:plan_gate",
    "ok-to-test": "ci.pull_requests.ok_to_test:ok_to_test",
    "conclude-gate": "ci.pull_requests.conclude_command:conclude_gate",
    "accept-reply": "ci.pull_requests.accept_reply:accept_reply",
    "compare-code": "ci.code.command:compare_code_command",
    "report-code": "ci.code.report_command:report_code",
    "alert": "ci.alerting.command:alert",
    "digest": "ci.alerting.digest_command:digest_command",
    "alone": "ci.alone_command:alone",
    "runner": "ci.runner.command:runner",
    "doctor": "ci.runner.doctor:doctor",
    "serve": "dashboard.serving:serve",
    "token": "dashboard.token_commands:token",
}


class _Commands(click.Group):
    """Finds a command by its name in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        with _nothing_collected(), _one_thread_of_blas():
            found: click.Command = getattr(import_module(f"{_ROOM}.{module}"), attribute)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error that it does not handle must not end with 1, which means "regressed" to scripts."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, EOFError, click.Abort):
            click.echo("\nInterrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # the program that reads our output has ended: `warpwatch check ... | head`
            discard_stdout()
            ctx.exit(PIPE_CLOSED)
        except Exception as error:
            message = storage_error(error)
            if message is None:
                traceback.print_exc()
                message = f"warpwatch failed unexpectedly ({type(error).__name__}); please report the lines above"
            click.echo(f"Error: {message}", err=True)
            discard_stdout()
            ctx.exit(FAILED)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What an import makes stays: to look through it again and again takes a fifth of the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _one_thread_of_blas() -> Iterator[None]:
    """NumPy, if it is loaded meanwhile, starts no threads: our matrices are small, and threads that wait for larger
    ones keep a core busy. Benchmarks that a command starts later do not inherit it.
    """
    if _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_BLAS_THREADS]


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="warpwatch")
def main() -> None:
    """How fast each GPU kernel is at each commit, and which commit made it slower.

    Exit status: 0 success; 1 a negative answer, such as "regressed"; 2 wrong usage or no answer; 70 an unexpected
    error, a full disk or a database that fails; 130 interrupted. The help of a command states any other.
    """


if __name__ == "__main__":
    main()
