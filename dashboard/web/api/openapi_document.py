"""The OpenAPI 3.1 document, made of what the operations say of themselves: their schemas are its only source.

3.1 takes JSON Schema 2020-12 as it is, which is what pydantic writes.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from flask import Flask
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from werkzeug.routing import Rule

from ...importers.formats import KNOWN
from .operation import Operation, operation_of
from .problems import MEDIA_TYPE, Problem

_WRITES = ("post", "put")
_ALWAYS = (401, 403, 422, 429, 500, 503)  # problems that any operation may answer with
_MEANINGS = {
    304: "The client has it: `If-None-Match` names the ETag.",
    400: "The body is not the one that its Content-Digest speaks of.",
    401: "Reading or uploading wants a login or a token here, and none came, or none that works.",
    403: "Whoever asks may not do this.",
    404: "There is no such thing; the problem says what was looked for.",
    413: "The body is larger than what is taken here.",
    415: "The body is of no kind that is taken here.",
    422: "Something in the question or the body cannot be understood; the problem says what.",
    429: "Too many requests; `Retry-After` says when to come again.",
    500: "Something went wrong on our side.",
    503: "The store did not answer, or there is no room; the request may be repeated as it is.",
}
_PATH: dict[str, dict[str, Any]] = {
    "project": {
        "description": "The project's name; a slash in it is written `~1` and a tilde `~0`.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
    },
    "key": {"description": "A series' key.", "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"}},
    "commit": {
        "description": "A commit's hash, or enough of its beginning.",
        "schema": {"type": "string", "pattern": "^[0-9a-fA-F]{4,64}$"},
    },
}
_ABOUT = """Everything on the pages, for programs. Lists come in parts: `limit` and `offset` choose one, and `next` is
the address of the part after it, null on the last. What has a `format` parameter also answers with CSV, by
`?format=csv` or `Accept: text/csv`. Units stand in the names of fields, or in the `unit` beside; relative changes are
fractions; `null` is "unknown", and there is never NaN. Times are UTC. Answers carry an `ETag`: ask with
`If-None-Match`, and an unchanged one is 304 without a body. Errors are problem details (RFC 9457). New fields may
appear; those that are here stay."""


class _Schemas(GenerateJsonSchema):
    """pydantic's schemas without a title for each field, which would only repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(app: Flask) -> dict[str, Any]:
    """The document of every operation that the application has."""
    found = sorted(_operations(app), key=lambda each: _order(app, each[0]))
    models = {model for _, operation in found for model in (operation.question, operation.answer)} | {Problem}
    answers = {operation.answer for _, operation in found} | {Problem}
    models |= {operation.body for _, operation in found if operation.body is not None}
    refs, schemas = models_json_schema(
        [(model, "serialization" if model in answers else "validation") for model in sorted(models, key=repr)],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Schemas,
    )
    components = schemas.get("$defs", {})
    paths: dict[str, Any] = {}
    for rule, operation in found:
        method = next((each for each in _WRITES if each.upper() in (rule.methods or ())), "get")
        question = components[refs[operation.question, "validation"]["$ref"].rpartition("/")[2]]
        body = refs[operation.body, "validation"] if operation.body is not None else None
        told = _told(
            rule,
            operation,
            method,
            question,
            body,
            refs[operation.answer, "serialization"],
            refs[Problem, "serialization"],
        )
        paths.setdefault(_template(rule), {})[method] = told
    for operation in (each for _, each in found):
        components.pop(refs[operation.question, "validation"]["$ref"].rpartition("/")[2], None)
    tags = list(dict.fromkeys(operation.tag for _, operation in found))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "warpwatch",
            "version": "1.0.0",
            "summary": "How fast each GPU kernel is at each commit.",
            "description": _ABOUT.replace("\n", " "),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of one project for uploads; `warpwatch token create` makes one.",
                }
            },
        },
    }


def _operations(app: Flask) -> Iterator[tuple[Rule, Operation]]:
    for rule in app.url_map.iter_rules():
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation is not None:
            yield rule, operation


def _order(app: Flask, rule: Rule) -> int:
    return list(app.view_functions).index(rule.endpoint)


def _template(rule: Rule) -> str:
    return re.sub(r"<(?:[^:>]+:)?([^>]+)>", r"{\1}", rule.rule)


def _told(
    rule: Rule,
    operation: Operation,
    method: str,
    question: dict[str, Any],
    its_body: dict[str, Any] | None,
    answer: dict[str, Any],
    problem: dict[str, Any],
) -> dict[str, Any]:
    is_upload = method in _WRITES
    headers = (
        {}
        if is_upload
        else {
            "ETag": {"schema": {"type": "string"}, "description": "For `If-None-Match`."},
            "Cache-Control": {"schema": {"type": "string"}},
        }
    )
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if operation.has_csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "content": content, **({"headers": headers} if headers else {})}
    }
    if not is_upload:
        responses["304"] = {"description": _MEANINGS[304]}
    for status in sorted({*operation.statuses, *_ALWAYS}):
        responses[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}. {_MEANINGS[status]}",
            "content": {MEDIA_TYPE: {"schema": problem}},
        }
    body = {
        "security": [{"token": []}],
        "requestBody": {
            "required": True,
            "description": (
                "What the file states." if its_body is not None else f"Results of {KNOWN}, or an archive of them."
            ),
            "content": (
                {"application/json": {"schema": its_body}} if its_body is not None else {"application/octet-stream": {}}
            ),
        },
    }
    return {
        "operationId": rule.endpoint.removeprefix("api_").replace(".", "_"),
        "tags": [operation.tag],
        "summary": operation.summary,
        **({"description": operation.description} if operation.description else {}),
        "parameters": [*_path_parameters(rule), *_query_parameters(question)],
        **(body if is_upload else {}),
        "responses": responses,
    }


def _path_parameters(rule: Rule) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", _template(rule))
    return [{"name": name, "in": "path", "required": True, **_PATH[name]} for name in names]


def _query_parameters(question: dict[str, Any]) -> list[dict[str, Any]]:
    required = question.get("required", ())
    parameters = []
    for name, schema in question.get("properties", {}).items():
        inner = {key: value for key, value in schema.items() if key != "description"}
        said = {"description": schema["description"]} if "description" in schema else {}
        parameters.append({"name": name, "in": "query", "required": name in required, **said, "schema": _asked(inner)})
    return parameters


def _asked(schema: dict[str, Any]) -> dict[str, Any]:
    """What an address can hold: no null, which is only how an absent parameter reads."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    told = {key: value for key, value in schema.items() if key != "anyOf" and not (key == "default" and value is None)}
    return {**told, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})}
