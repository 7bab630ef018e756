"""How answers travel: compressed if the browser accepts it, with an ETag, and with the time that they took."""

from time import perf_counter, thread_time

from flask import Flask, Response, g, request
from flask_compress import Compress

_TYPES = (
    "text/html", "text/css", "text/javascript", "text/csv", "text/plain", "application/json", "image/svg+xml",
)  # fmt: skip


def register(app: Flask) -> None:
    """To be called before all else that looks at answers, so that their time is in it."""
    app.before_request(_begin)
    app.after_request(_tell)
    app.config["COMPRESS_MIMETYPES"] = list(_TYPES)
    app.config["COMPRESS_ALGORITHM"] = ["br", "gzip"]
    app.config["COMPRESS_ALGORITHM_STREAMING"] = ["br", "gzip"]  # files of ours
    app.config["COMPRESS_BR_LEVEL"] = 4
    Compress(app)


def register_conditional(app: Flask) -> None:
    """Answers get an ETag. To be called after all else that looks at answers, so that it sees them first."""
    app.after_request(_conditional)


def _conditional(response: Response) -> Response:
    """Results come at any moment: a browser asks each time, and is told if it has the answer already.

    A page with a form is another one each time, as the form's token is masked anew (csrf.py).
    """
    if request.method not in {"GET", "HEAD"}:
        return response
    if not response.cache_control:
        response.cache_control.private = True
        response.cache_control.no_cache = True
    if response.status_code == 200 and not response.is_streamed:
        response.add_etag()
        response.make_conditional(request)
    return response


def _begin() -> None:
    g.began_s, g.worked_s = perf_counter(), thread_time()


def _tell(response: Response) -> Response:
    """The wall time in the thread that answers, the waiting for other threads in it, not what came before or after; and
    the processor time that the thread took of it.

    Browsers show it beside the request (W3C, "Server Timing").
    """
    if "began_s" in g:
        wall_ms, cpu_ms = (perf_counter() - g.began_s) * 1000, (thread_time() - g.worked_s) * 1000
        response.headers["Server-Timing"] = f"app;dur={wall_ms:.2f}, cpu;dur={cpu_ms:.2f}"
    return response
