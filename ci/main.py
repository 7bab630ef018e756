"""The one command `warpwatch`: each sub-command lives with the thing it does and is only listed here.

A command is imported when it is called: one that takes a moment should not wait for what the others need.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click

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
    """How fast each GPU kernel is at each commit, and which commit made it slower."""


if __name__ == "__main__":
    main()
