"""`/api/projects/<project>/measurement`: what this machine measures now."""

from flask import Blueprint

from ..measurement import Measurement, measurement_of
from ..request_context import project_or_404
from .operation import operation
from .query_params import Question

bp = Blueprint("api_measurement", __name__, url_prefix="/api/projects/<project:project>")


@operation(bp, "/measurement", question=Question, answer=Measurement, tag="Measurement")
def show(project: str, asked: Question) -> Measurement:
    """What `make run` measures now, as the overview's banner shows it; the state is `none` on any other dashboard."""
    return measurement_of(project_or_404(project).name)
