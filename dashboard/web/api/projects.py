"""`/api/projects`: what this dashboard watches."""

from datetime import datetime

from flask import Blueprint
from pydantic import Field

from ...model.schema import Schema
from ...model.series import Project
from ...store import queries
from ..request_context import project_or_404, store
from .operation import operation
from .query_params import Paged, Question
from .responses import Listing, listing

bp = Blueprint("api_projects", __name__, url_prefix="/api/projects")


class ProjectShape(Schema):
    """One project whose results are kept."""

    name: str
    machines: int = Field(ge=0)
    series: int = Field(ge=0)
    commits: int = Field(ge=0)
    newest_commit: datetime | None
    newest_run: datetime | None
    unanalysed: int = Field(ge=0)
    """Series with values that the analysis has not seen yet, or that older rules than today's told of."""
    unjudged: int = Field(ge=0)
    """Machines with findings that have not been judged together yet."""


class ProjectList(Listing):
    """Projects, the one with the newest run first."""

    items: list[ProjectShape]


@operation(bp, "", question=Paged, answer=ProjectList, tag="Projects", statuses=())
def index(asked: Paged) -> ProjectList:
    """All projects, the one with the newest run first."""
    found, place = listing(queries.projects(store()), asked)
    return ProjectList(items=[_schema(each) for each in found], **place)


@operation(bp, "/<project:project>", question=Question, answer=ProjectShape, tag="Projects")
def show(project: str, asked: Question) -> ProjectShape:
    """One project."""
    return _schema(project_or_404(project))


def _schema(project: Project) -> ProjectShape:
    return ProjectShape(
        name=project.name,
        machines=project.machines,
        series=project.series,
        commits=project.commits,
        newest_commit=project.newest_commit,
        newest_run=project.newest_run,
        unanalysed=project.unanalysed,
        unjudged=project.unjudged,
    )
