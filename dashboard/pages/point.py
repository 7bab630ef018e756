"""One point of a series: a panel under its figure, which comes with the page or, as a fragment, by itself."""

from typing import Any

from flask import Blueprint, abort, render_template, request

from warpwatch.dashboard.compiled_difference import compiled_difference
from warpwatch.dashboard.figures.samples import samples_beside
from warpwatch.dashboard.pages.addresses import compare_address
from warpwatch.dashboard.pages.origin_facts import origin_facts
from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.reproduce import asv_command
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.shown_records import PointFacts

bp = Blueprint("point", __name__, url_prefix="/<project:project>/series")

# What differs from run to run and tells nothing.
_OF_ONE_RUN = frozenset({"Run", "Run began", "Measured", "Seed", "Calls timed"})


@bp.get("/<key>/point")
def show(project: str, key: str) -> str:
    """The panel alone, of the run that `run` names; the newest without it."""
    facts = queries.point_facts(store(), key, request.args.get("run") or None)
    if facts is None or facts.series.project != project:
        project_or_404(project)
        abort(404, "This series has no such point.")
    return render_template("point.html", point=panel(facts))


def panel(facts: PointFacts) -> dict[str, Any]:
    """What templates/point.html shows."""
    point, before = facts.point, facts.before
    now = dict(origin_facts(facts.origin)) if facts.origin else {}
    then = dict(origin_facts(facts.origin_before)) if facts.origin_before else {}
    sides = [(f"at {before.commit.hash[:8]}", facts.samples_before)] if before is not None else []
    has_both = before is not None and before.value and point.value is not None
    return {
        "facts": facts,
        "before": before,
        "compare": compare_address(facts.series.project, before.commit.hash, point.commit.hash) if before else None,
        "change": point.value / before.value - 1 if has_both and before and before.value and point.value else None,
        "is_other_card": before is not None and None not in (point.card, before.card) and point.card != before.card,
        "context": [
            (name, said, then[name] if name in then and then[name] != said and name not in _OF_ONE_RUN else None)
            for name, said in now.items()
        ],
        "samples": samples_beside([*sides, ("this point", facts.samples)], facts.series.metric.unit),
        "code": compiled_difference(facts.compiled_before, facts.compiled),
        "command": asv_command(facts.series, point.commit),
    }
