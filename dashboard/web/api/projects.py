"""`/api/projects`: the projects in the store."""

from datetime import datetime

from flask import Blueprint
from pydantic import Field

from ...model.schema import Schema
from ...model.series import Project
from ...store import queries
from ..request_context import project_or_404, store
from .operation import Listing, PageParams, QueryParams, listing, operation

bp = Blueprint("api_projects", __name__, url_prefix="/api/projects")


class ProjectSchema(Schema):
    """One project."""

    name: str
    machines: int = Field(ge=0)
    series: int = Field(ge=0)
    commits: int = Field(ge=0)
    newest_commit: datetime | None
    newest_run: datetime | None
    unanalysed: int = Field(ge=0)
    """Series with values newer than their analysis, or analysed by an older version."""
    unjudged: int = Field(ge=0)
    """Machines with findings that are not classified yet."""


class ProjectList(Listing):
    """Projects, newest run first."""

    items: list[ProjectSchema]


@operation(bp, "", params=PageParams, response=ProjectList, tag="Projects", statuses=())
def index(params: PageParams) -> ProjectList:
    """List projects.

    Newest run first.
    """
    page, page_fields = listing(queries.projects(store()), params)
    return ProjectList(items=[_schema(project) for project in page], **page_fields)


@operation(bp, "/<project:project>", params=QueryParams, response=ProjectSchema, tag="Projects")
def show(project: str, params: QueryParams) -> ProjectSchema:
    """Get a project."""
    return _schema(project_or_404(project))


def _schema(project: Project) -> ProjectSchema:
    return ProjectSchema(
        name=project.name,
        machines=project.machines,
        series=project.series,
        commits=project.commits,
        newest_commit=project.newest_commit,
        newest_run=project.newest_run,
        unanalysed=project.unanalysed,
        unjudged=project.unjudged,
    )
