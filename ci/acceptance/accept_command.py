"""`warpwatch policy accept`: accept regressions between two commits."""

import getpass
import time
from datetime import UTC, datetime

import click

from warpwatch.dashboard.cli.project_choice import choose_project, recorded_commit
from warpwatch.dashboard.cli.store_access import CannotTellError, open_store
from warpwatch.dashboard.model.comparison import Acceptance
from warpwatch.dashboard.model.naming import kernel_of
from warpwatch.dashboard.model.quantities import share
from warpwatch.dashboard.model.schema import first_fault
from warpwatch.dashboard.model.series import workload_of
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.policy import record_acceptances

from .coverage import is_named
from .grammar import WANTED, parse_wording


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("base")
@click.argument("head")
@click.argument("words", nargs=-1, required=True, metavar="GLOB [<= 5 %] REASON")
@click.option("--by", metavar="NAME", help="Who says so; default: who runs this.")
@click.option("--source", metavar="WHERE", help="Where it was said, an address say; default: this command.")
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
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

    What regressed from BASE to HEAD, of the series that GLOB names, for the REASON given. GLOB is of kernels,
    benchmarks or whole titles of series. `warpwatch check` and `gate` of the same two commits then show it as accepted
    and do not fail for it; a further commit is another range, for which nobody has said anything.
    """
    pattern, *rest = words
    quoted = f'"{pattern}"' if " " in pattern else pattern
    try:
        told = parse_wording(" ".join([quoted, *rest]))
        store = open_store(database)
        chosen = choose_project(store, project)
        ends = [recorded_commit(store, chosen, name) for name in (base, head)]
        said = Acceptance(
            pattern=told.pattern,
            reason=told.reason,
            at_most=told.at_most,
            by=by or getpass.getuser(),
            at=datetime.now(UTC),
            source=source or "warpwatch policy accept",
        )
    except ValueError as error:
        fault = first_fault(error)
        raise CannotTellError(fault if WANTED in fault else f"{fault}; wanted {WANTED}") from error
    workloads = queries.project_workloads(store, chosen.name)
    series = queries.find_series(store, chosen.name, limit=10**9).series
    if not any(is_named(told.pattern, each, kernel_of(each, workload_of(each, workloads))) for each in series):
        raise CannotTellError(
            f"“{told.pattern}” names no series of {chosen.name}, so there is nothing to accept; give a kernel, a "
            "benchmark or a whole title as `warpwatch check` prints it, or a glob of them"
        )
    record_acceptances(store, chosen.name, ends[0].hash, ends[1].hash, [said], now_ms=time.time_ns() // 1_000_000)
    at_most = f" up to {share(said.at_most)}" if said.at_most is not None else ""
    click.echo(f"“{said.pattern}” is accepted{at_most} from {ends[0].hash[:8]} to {ends[1].hash[:8]}, by {said.by}")
    store.close()
