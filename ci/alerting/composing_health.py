"""What is said of the data itself: that it does not come, cannot be trusted, or that a kernel gives no number."""

from collections.abc import Sequence

from warpwatch.ci.alerting.following import Action
from warpwatch.ci.alerting.message import Message, key_of
from warpwatch.dashboard.code_span import defused, inert
from warpwatch.dashboard.pages.addresses import project_in_path
from warpwatch.dashboard.store.health_alerts import HealthFinding

_PREFIX = {Action.OPENED: "", Action.UPDATED: "update: ", Action.RESOLVED: "resolved: "}


def compose_health(
    project: str, finding: HealthFinding, *, thread: str, number: int, action: Action, owners: Sequence[str] = (),
    dashboard_url: str | None = None,
) -> Message:  # fmt: skip
    """The message about a finding; with RESOLVED, that it is found no more."""
    title = f"{project}: {_PREFIX[action]}{finding.machine}: {finding.says}"
    is_over = action is Action.RESOLVED
    lines = ["This is over; it was:", ""] if is_over else []
    lines += [f"- {inert(line)}" for line in finding.lines]
    if owners:
        lines += ["", f"Owners: {', '.join(owners)}"]
    url = None
    if dashboard_url:
        place = f"{project_in_path(project)}/machines/{project_in_path(finding.machine)}"
        url = f"{dashboard_url.rstrip('/')}/{place}"
        lines += ["", url]
    key = key_of(thread, number)
    payload = {
        "schema": 2, "event": finding.kind.value, "action": action.value, "key": key, "thread": thread, "title": title,
        "project": project, "machine": finding.machine, "kernel": finding.kernel, "members": [*finding.members],
        "lines": [*finding.lines], "owners": [*owners], "url": url,
    }  # fmt: skip
    return Message(
        key=key, thread=thread, action=action.value, title=defused(title), text="\n".join(lines), payload=payload,
        labels=(finding.kind.value,),
    )  # fmt: skip
