"""The command `warpwatch`: a table of its sub-commands, which are defined in their own packages.

A command is imported when it is called, so that no command, nor the list of commands, waits for imports of others.
"""

import gc
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click

from warpwatch.dashboard.cli.output import FAILED, INTERRUPTED, PIPE_CLOSED, discard_stdout, storage_error

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"  # OpenBLAS reads it when NumPy loads


class _Command(NamedTuple):
    """Location and summary of a sub-command."""

    source: str  # module:attribute, below warpwatch
    summary: str
    extra: str | None = None  # an extra of setup.py, if the command needs more libraries than the dashboard


_FORGE = {
    "report-gate": _Command(
        "ci.reports.report_gate_command:report_gate", "Report a gate's artefact to a forge.", "forges"
    ),
    "plan-gate": _Command(
        "ci.pull_requests.gate_plan:plan_gate", "Decide whether a pull request's commit is measured.", "forges"
    ),
    "conclude-gate": _Command(
        "ci.pull_requests.conclude_command:conclude_gate", "Set the gate's check of a commit.", "forges"
    ),
    "ok-to-test": _Command(
        "ci.pull_requests.reply_commands:ok_to_test", "Handle `/ok to test` on a pull request.", "forges"
    ),
    "accept-reply": _Command(
        "ci.pull_requests.reply_commands:accept_reply", "Handle `/warpwatch accept` on a pull request.", "forges"
    ),
}
_COMMANDS = {
    "serve": _Command("dashboard.cli.serve:serve", "Serve the dashboard."),
    "import": _Command("dashboard.cli.import_:import_", "Add results to the history."),
    "report": _Command("dashboard.cli.report:report", "Print the latencies of the newest commit."),
    "check": _Command("ci.gate.check_command:check", "Compare two recorded commits by the policy."),
    "compare": _Command(
        "ci.code.compare_command:compare", "Compare commits, machines, implementations or compiled code."
    ),
    "gate": _Command("ci.gate.gate_command:gate", "Measure and compare two commits."),
    "bisect": _Command("ci.bisect.bisect_command:bisect", "Find the commit that changed a series."),
    "alert": _Command("ci.alerts.alert_command:alert", "Send alerts for new regressions, or a digest.", "alerts"),
    "push": _Command("ci.push.push_command:push", "Send asv's results to a dashboard."),
    "export": _Command("dashboard.cli.export:export", "Write all measurements, or the dashboard as static files."),
    "policy": _Command(
        "ci.policy.policy_command:policy", "Validate warpwatch.toml, accept regressions, apply a retention."
    ),
    "token": _Command("dashboard.cli.token:token", "Create, list and revoke API tokens."),
    "runner": _Command("ci.runner.runner_command:runner", "Set this machine up to measure, and measure."),
    "doctor": _Command("ci.runner.doctor:doctor", "Check that this machine can measure."),
}


class _MissingExtraError(click.ClickException):
    """A library of an extra is not installed."""

    exit_code = 2


class _Commands(click.Group):
    """A group of the commands in one of the tables above."""

    def __init__(self, *arguments: Any, table: dict[str, _Command], prefix: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table, self._prefix = table, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._table, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. Raises a click error that names the extra which is not installed."""
        if cmd_name not in self._table:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._table[cmd_name].source.partition(":")
        with (
            _permanent_objects(),
            _one_blas_thread(),
            _extra_hint(f"{self._prefix} {cmd_name}", self._table[cmd_name].extra),
        ):
            command: click.Command = getattr(import_module(f"warpwatch.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands without importing them, which takes more than a second."""
        with formatter.section("Commands"):
            listed = [(name, command.summary) for name, command in self._table.items()]
            loaded = [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
            formatter.write_dl([*listed, *loaded])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Unhandled errors exit with FAILED, since 1 means "regressed" to scripts."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, EOFError, click.Abort):
            click.echo("\nInterrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader of our output ended, as in `warpwatch check ... | head`
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
def _extra_hint(command: str, extra: str | None) -> Iterator[None]:
    """Turns a missing library into a click error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").partition(".")[0] == "warpwatch":
            raise
        raise _MissingExtraError(f"{command} needs {error.name}: pip install 'warpwatch[{extra}]'") from error


@contextmanager
def _permanent_objects() -> Iterator[None]:
    """Excludes objects of imported modules from garbage collection.

    Collecting them takes a seventh of the CPU time of `check`, and stops the pages of `serve` for 160 to 320 ms.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Loads NumPy without BLAS threads: our matrices are small, and idle threads keep a core busy.

    Benchmarks that a command starts later do not inherit the setting.
    """
    if _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_BLAS_THREADS]


@click.group(
    cls=_Commands,
    table=_COMMANDS,
    prefix="warpwatch",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="warpwatch")
def main() -> None:
    """Track how fast each GPU kernel is at each commit, and find commits that make it slower.

    Exit status: 0 success; 1 a negative answer, such as "regressed"; 2 wrong usage or no answer; 70 an unexpected
    error, a full disk or a database that fails; 130 interrupted. The help of a command states any other.
    """


@main.group(cls=_Commands, table=_FORGE, prefix="warpwatch forge")
def forge() -> None:
    """Commands for workflows on GitHub and GitLab."""


if __name__ == "__main__":
    main()
