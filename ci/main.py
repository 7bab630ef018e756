"""The command `warpwatch`: each sub-command lives with the thing it does and is only listed here.

A command is imported when it is called: one that takes a moment should not wait for what the others need, and the list
of commands waits for none.
"""

import gc
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click

from warpwatch.dashboard.exit_status import FAILED, INTERRUPTED, PIPE_CLOSED, discard_stdout, storage_error

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"  # which OpenBLAS reads once, when NumPy loads it


class _Command(NamedTuple):
    """Where a sub-command is, and what the list of commands says of it."""

    source: str  # module:attribute, below warpwatch
    summary: str
    extra: str | None = None  # of setup.py, which has the libraries that the command needs besides the dashboard's


_FORGE = {
    "report-gate": _Command("ci.reports.command:report_gate", "Report a gate's artefact to a forge.", "forges"),
    "report-code": _Command(
        "ci.code.report_command:report_code", "Report changes of compiled code to a pull request.", "forges"
    ),
    "plan-gate": _Command(
        "ci.pull_requests.plan_command:plan_gate", "Decide which pull request's commit is measured.", "forges"
    ),
    "conclude-gate": _Command(
        "ci.pull_requests.conclude_command:conclude_gate", "Set the gate's check of a commit.", "forges"
    ),
    "ok-to-test": _Command("ci.pull_requests.ok_to_test:ok_to_test", "Obey `/ok to test` on a pull request.", "forges"),
    "accept-reply": _Command(
        "ci.pull_requests.accept_reply:accept_reply", "Obey `/warpwatch accept` on a pull request.", "forges"
    ),
}
_COMMANDS = {
    "serve": _Command("dashboard.serving:serve", "Serve the dashboard."),
    "import": _Command("dashboard.import_command:import_", "Add results to the history."),
    "report": _Command("dashboard.commands:report", "Print the latencies of the newest commit."),
    "check": _Command("ci.check_command:check", "Judge two recorded commits by the policy."),
    "compare": _Command("ci.compare_command:compare", "Compare commits, machines, implementations or compiled code."),
    "gate": _Command("ci.gate.command:gate", "Measure two commits in turns and judge the difference."),
    "bisect": _Command("ci.bisect.command:bisect", "Find the commit that changed a series."),
    "alert": _Command("ci.alerting.command:alert", "Send alerts for new regressions, or a digest.", "alerts"),
    "push": _Command("ci.push.command:push", "Send asv's results to a dashboard."),
    "export": _Command("dashboard.exports.command:export", "Write all measurements, or the dashboard as static files."),
    "policy": _Command("ci.policy.command:policy", "Validate warpwatch.toml, accept regressions, apply a retention."),
    "token": _Command("dashboard.token_commands:token", "Create, list and revoke API tokens."),
    "runner": _Command("ci.runner.command:runner", "Set this machine up to measure, and measure."),
    "doctor": _Command("ci.runner.doctor:doctor", "Check that this machine can measure."),
}


class _MissingExtraError(click.ClickException):
    """A library of an extra is not installed."""

    exit_code = 2


class _Commands(click.Group):
    """Finds a command by its name in one of the tables above."""

    def __init__(self, *arguments: Any, table: dict[str, _Command], prefix: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table, self._prefix = table, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return [*self._table, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. Raises a click error that names the extra which is not installed."""
        if cmd_name not in self._table:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._table[cmd_name].source.partition(":")
        with (
            _nothing_collected(),
            _one_thread_of_blas(),
            _extra_of(f"{self._prefix} {cmd_name}", self._table[cmd_name].extra),
        ):
            found: click.Command = getattr(import_module(f"warpwatch.{module}"), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands without importing them, which takes more than a second."""
        with formatter.section("Commands"):
            listed = [(name, command.summary) for name, command in self._table.items()]
            formatter.write_dl([*listed, *((name, one.get_short_help_str(100)) for name, one in self.commands.items())])

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
def _extra_of(command: str, extra: str | None) -> Iterator[None]:
    """Turns the lack of a library into a click error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").partition(".")[0] == "warpwatch":
            raise
        raise _MissingExtraError(f"{command} needs {error.name}: pip install 'warpwatch[{extra}]'") from error


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


@click.group(
    cls=_Commands,
    table=_COMMANDS,
    prefix="warpwatch",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="warpwatch")
def main() -> None:
    """How fast each GPU kernel is at each commit, and which commit made it slower.

    Exit status: 0 success; 1 a negative answer, such as "regressed"; 2 wrong usage or no answer; 70 an unexpected
    error, a full disk or a database that fails; 130 interrupted. The help of a command states any other.
    """


@main.group(cls=_Commands, table=_FORGE, prefix="warpwatch forge")
def forge() -> None:
    """Commands that workflows on GitHub and GitLab call."""


if __name__ == "__main__":
    main()
