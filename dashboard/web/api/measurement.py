"""`/api/projects/<project>/measurement`: progress of `make run`."""

from flask import Blueprint

from ..measurement import Measurement, measurement_of
from ..request_context import project_or_404
from .operation import QueryParams, operation

bp = Blueprint("api_measurement", __name__, url_prefix="/api/projects/<project:project>")


@operation(bp, "/measurement", params=QueryParams, response=Measurement, tag="Measurement")
def show(project: str, params: QueryParams) -> Measurement:
    """Get the progress of `make run`.

    As in the banner of the overview; the state is `none` on any other dashboard.
    """
    return measurement_of(project_or_404(project).name)
