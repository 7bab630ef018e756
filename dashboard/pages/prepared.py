"""What pages make of a whole project, worked out before anybody asks: after an import, and when the server starts."""

from collections.abc import Callable

from flask import Flask

from warpwatch.dashboard.pages import commits, machines, overview
from warpwatch.dashboard.pages.commit_facts import commit_verdicts
from warpwatch.dashboard.pages.shared import store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.card_records import CardFilter

_MACHINES = 8  # those with the newest data
_COMMITS = 2  # the newest: those that somebody who pushed looks at
_ANY_WORD = "a"  # the first search reads all names


def prepare(app: Flask) -> Callable[[str], None]:
    """For `Preparing`: asks for what the pages of a project remember, as its readers do."""

    def of_project(project: str) -> None:
        with app.app_context():
            overview.everything(project)
            queries.search(store(), _ANY_WORD, project=project)
            queries.cards(store(), project, CardFilter())
            queries.rooflines(store(), project)
            for commit in queries.commits(store(), project, limit=_COMMITS):
                commits.page_of(project, commit.hash)
                commit_verdicts(project, commit, queries.measured_on(store(), project, commit.hash))
            for machine in queries.machines(store(), project)[:_MACHINES]:
                machines.known(project, machine.name)

    return of_project
