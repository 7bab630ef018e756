"""How answers travel: compressed where the reader's browser takes it, and with the time that they took."""

from time import perf_counter, thread_time

from flask import Flask, Request, Response, g
from flask_compress import Compress

from warpwatch.dashboard import kept

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
    app.config["COMPRESS_CACHE_BACKEND"] = kept.Compressed
    app.config["COMPRESS_CACHE_KEY"] = _of_this_answer
    Compress(app)


def _of_this_answer(_request: Request) -> str:
    return ""  # what is kept of an answer is kept at the answer


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
