"""`warpwatch policy accept`: accept regressions between two commits."""

import getpass
import time
from datetime import UTC, datetime

import click

from warpwatch.dashboard.cli.options import database_option, project_option
from warpwatch.dashboard.cli.project_choice import choose_project, recorded_commit
from warpwatch.dashboard.cli.store_access import CannotTellError, open_store
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import share
from warpwatch.dashboard.model.schema import first_fault
from warpwatch.dashboard.model.series import workload_of
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.policy import record_acceptances

from .coverage import is_matched
from .grammar import SYNTAX, parse_acceptance


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("base")
@click.argument("head")
@click.argument("words", nargs=-1, required=True, metavar="GLOB [<= 5 %] REASON")
@click.option("--by", metavar="NAME", help="Name of the person who accepts; default: this user.")
@click.option("--source", metavar="WHERE", help="Source of the acceptance, such as a URL; default: this command.")
@project_option
@database_option
def accept(
    base: str,
    head: str,
    words: tuple[str, ...],
    by: str | None,
    source: str | None,
    project: str | None,
    database: str | None,
) -> None:
    """Accept regressions between two commits.

    Accepts regressions from BASE to HEAD of the series that GLOB matches, for the REASON. GLOB matches kernels,
    benchmarks or whole titles of series. `warpwatch check` and `gate` of the same two commits then show them as
    accepted and do not fail. The acceptance does not cover another range of commits.
    """
    pattern, *rest = words
    quoted = f'"{pattern}"' if " " in pattern else pattern
    try:
        line = parse_acceptance(" ".join([quoted, *rest]))
        store = open_store(database)
        chosen = choose_project(store, project)
        ends = [recorded_commit(store, chosen, name) for name in (base, head)]
        acceptance = Acceptance(
            pattern=line.pattern,
            reason=line.reason,
            at_most=line.at_most,
            by=by or getpass.getuser(),
            at=datetime.now(UTC),
            source=source or "warpwatch policy accept",
        )
    except ValueError as error:
        fault = first_fault(error)
        raise CannotTellError(fault if SYNTAX in fault else f"{fault}; expected {SYNTAX}") from error
    workloads = queries.project_workloads(store, chosen.name)
    series = queries.find_series(store, chosen.name, limit=10**9).series
    if not any(is_matched(line.pattern, each, kernel_of(each, workload_of(each, workloads))) for each in series):
        raise CannotTellError(
            f"“{line.pattern}” matches no series of {chosen.name}; give a kernel, a benchmark or a whole title as "
            "`warpwatch check` prints it, or a glob of them"
        )
    base_hash, head_hash = (commit.hash for commit in ends)
    record_acceptances(store, chosen.name, base_hash, head_hash, [acceptance], now_ms=time.time_ns() // 1_000_000)
    at_most = f" up to {share(acceptance.at_most)}" if acceptance.at_most is not None else ""
    between = f"from {base_hash[:8]} to {head_hash[:8]}"
    click.echo(f"“{acceptance.pattern}” is accepted{at_most} {between}, by {acceptance.by}")
    store.close()
