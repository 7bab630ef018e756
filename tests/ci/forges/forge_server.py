"""An HTTP server on this machine that checks every request against what a forge published, and fails as configured.

A request that the published description does not know is answered 400 and kept in `faults`, which a test wants empty.
"""

import json
import re
import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import jsonschema

PUBLISHED = Path(__file__).parents[1] / "published"


@dataclass(kw_only=True)
class Failure:
    """What the next request of a kind meets instead of its answer."""

    operation: str  # the beginning of "post /repos/…"
    status: int | None  # None: the connection is cut
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | str = field(default_factory=lambda: {"message": "Server Error"})  # str: as it is
    done: bool = False  # whether it had its effect all the same


@dataclass(frozen=True)
class ForgeRequest:
    """A request that is as published."""

    operation: str
    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    example: Any  # of an answer


Answer = tuple[int, Any, dict[str, str]]


class ForgeServer(ThreadingHTTPServer):
    """A forge's API at `url`. Sub-classes hold its state, and answer in `answer`."""

    def __init__(self, description: str, prefix: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.operations = json.loads((PUBLISHED / description).read_text())["operations"]
        self.prefix = prefix
        self.requests: list[ForgeRequest] = []
        self.faults: list[str] = []
        self.failures: list[Failure] = []
        self.before: Callable[[ForgeRequest], None] = lambda request: None  # what happens in between
        self.after: Callable[[ForgeRequest], None] = lambda request: None
        self.lock = threading.RLock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def count(self, operation: str) -> int:
        """How many requests began like this."""
        return sum(request.operation.startswith(operation) for request in self.requests)

    def answer(self, request: ForgeRequest) -> Answer:
        """Does what is asked."""
        raise NotImplementedError

    def serve(self, method: str, url: str, headers: Any, content: bytes) -> Answer | None:
        """The answer to one request; None: the connection is cut."""
        with self.lock:
            request = self._checked(method.lower(), url, headers, content)
            if request is None:
                return 400, {"message": self.faults[-1]}, {}
            self.requests.append(request)
            self.before(request)
            failure = next((each for each in self.failures if request.operation.startswith(each.operation)), None)
            if failure is not None:
                self.failures.remove(failure)
                if failure.done:
                    self.answer(request)
                return None if failure.status is None else (failure.status, failure.body, failure.headers)
            answer = self.answer(request)
            self.after(request)
            return answer

    def _checked(self, method: str, url: str, headers: Any, content: bytes) -> ForgeRequest | None:
        parts = urlsplit(url)
        if not (headers.get("Authorization") or headers.get("PRIVATE-TOKEN")):
            return self._fault(f"{method} {url}: no token")
        for operation, description in self.operations.items():
            of, _, template = operation.partition(" ")
            # A path's parameter is one part of it: a project's slash comes escaped.
            pattern = re.escape(self.prefix) + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
            found = re.fullmatch(pattern, parts.path)
            if of != method or found is None:
                continue
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            path = {name: unquote(value) for name, value in found.groupdict().items()}
            body = json.loads(content) if content else {}
            fault = _fault_of(description, path, query, body)
            if fault is not None:
                return self._fault(f"{operation}: {fault}")
            return ForgeRequest(operation, path, query, body, deepcopy(description["example"]))
        return self._fault(f"{method} {parts.path}: not published")

    def _fault(self, message: str) -> None:
        self.faults.append(message)


def _fault_of(
    description: dict[str, Any], path: dict[str, str], query: dict[str, str], body: dict[str, Any]
) -> str | None:
    known = {(each["in"], each["name"]): each for each in description["parameters"]}
    for where, given in (("path", path), ("query", query)):
        for name, value in given.items():
            if (where, name) not in known:
                return f"no {where} parameter {name}"
            schema = known[where, name]["schema"]
            typed = int(value) if schema.get("type") == "integer" and value.isdecimal() else value
            try:
                jsonschema.Draft4Validator(schema).validate(typed)
            except jsonschema.ValidationError as error:
                return f"{name}: {error.message}"
    schema = description["body"]
    if schema is None:
        return "a body where none is published" if body else None
    if unknown := body.keys() - schema["properties"].keys():
        return f"the body has no {unknown}"
    for error in jsonschema.Draft4Validator(schema).iter_errors(body):
        return f"{error.json_path}: {error.message[:300]}"
    return None


class _Handler(BaseHTTPRequestHandler):
    server: ForgeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits 40 ms until its headers are acknowledged

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.serve(self.command, self.path, self.headers, content)
        if answer is None:
            self.close_connection = True
            self.connection.close()
            return
        status, body, headers = answer
        data = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass
