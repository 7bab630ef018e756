"""The one command `warpwatch`: each sub-command lives with the thing it does and is only listed here.

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


_COMMANDS = {
    "import": _Command("dashboard.import_command:import_", "Add results to the history."),
    "push": _Command("ci.push.command:push", "Send asv's results to a dashboard."),
    "check": _Command("ci.check_command:check", "Compare two recorded commits."),
    "report": _Command("dashboard.commands:report", "Print the latencies of the newest commit."),
    "export": _Command("dashboard.exports.command:export", "Write all measurements as CSV, JSON or Parquet."),
    "export-site": _Command("dashboard.site.command:export_site", "Write the dashboard as static files."),
    "compact": _Command("dashboard.compact_command:compact_command", "Shrink the store and apply a retention."),
    "gate": _Command("ci.gate.command:gate", "Measure two commits in turns and judge the difference."),
    "report-gate": _Command("ci.reports.command:report_gate", "Report a gate's artefact to a forge.", "forges"),
    "accept": _Command("ci.acceptance.command:accept", "Accept regressions between two commits."),
    "policy": _Command("ci.policy.command:policy", "Validate warpwatch.toml, or store its limits."),
    "bisect": _Command("ci.bisect.command:bisect", "Find the commit that changed a series."),
    "plan-gate": _Command(
        "ci.pull_requests.plan_command:plan_gate", "Decide which pull request's commit is measured.", "forges"
    ),
    "ok-to-test": _Command("ci.pull_requests.ok_to_test:ok_to_test", "Obey `/ok to test` on a pull request.", "forges"),
    "conclude-gate": _Command(
        "ci.pull_requests.conclude_command:conclude_gate", "Set the gate's check of a commit.", "forges"
    ),
    "accept-reply": _Command(
        "ci.pull_requests.accept_reply:accept_reply", "Obey `/warpwatch accept` on a pull request.", "forges"
    ),
    "compare-code": _Command("ci.code.command:compare_code_command", "Compare compiled code, kernel by kernel."),
    "report-code": _Command(
        "ci.code.report_command:report_code", "Report what compare-code found to a pull request.", "forges"
    ),
    "alert": _Command("ci.alerting.command:alert", "Send alerts for new regressions.", "alerts"),
    "digest": _Command("ci.alerting.digest_command:digest_command", "Send a summary of a day or a week.", "alerts"),
    "alone": _Command("ci.alone_command:alone", "Run a command while nothing else measures."),
    "runner": _Command("ci.runner.command:runner", "Set this machine up to measure, and measure."),
    "doctor": _Command("ci.runner.doctor:doctor", "Check that this machine can measure."),
    "serve": _Command("dashboard.serving:serve", "Serve the dashboard."),
    "token": _Command("dashboard.token_commands:token", "Create, list and revoke API tokens."),
}


class _MissingExtraError(click.ClickException):
    """A library of an extra is not installed."""

    exit_code = 2


class _Commands(click.Group):
    """Finds a command by its name in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. Raises a click error that names the extra which is not installed."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].source.partition(":")
        with _nothing_collected(), _one_thread_of_blas(), _extra_of(cmd_name):
            found: click.Command = getattr(import_module(f"warpwatch.{module}"), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands without importing them, which takes more than a second."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].summary) for name in self.list_commands(ctx)])

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
def _extra_of(command: str) -> Iterator[None]:
    """Turns the lack of a library into a click error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = _COMMANDS[command].extra
        if extra is None or (error.name or "").partition(".")[0] == "warpwatch":
            raise
        raise _MissingExtraError(f"warpwatch {command} needs {error.name}: pip install 'warpwatch[{extra}]'") from error


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
