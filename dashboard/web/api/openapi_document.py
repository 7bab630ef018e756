"""The OpenAPI 3.1 document, from the operations and their pydantic schemas (JSON Schema 2020-12), and its page."""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, current_app, render_template
from markupsafe import Markup
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from werkzeug.routing import Rule

from ...importers.formats import KNOWN
from ..error_messages import MEDIA_TYPE, Problem
from .operation import Operation, operation_of

_WRITES = ("post", "put")
_ALWAYS = (401, 403, 422, 429, 500, 503)  # problems of every operation
_MEANINGS = {
    304: "Unchanged: `If-None-Match` has the current ETag.",
    400: "The body does not match its Content-Digest.",
    401: "A login or a token is required, and the request has no valid one.",
    403: "The caller does not have the permission.",
    404: "Not found; `detail` names what was requested.",
    413: "The body is larger than the limit.",
    415: "The body is neither JSON nor a supported archive.",
    422: "A parameter or the body is invalid; `faults` names it.",
    429: "Rate limit exceeded; retry after `Retry-After` seconds.",
    500: "Internal error; the server's log has the details.",
    503: "The database does not respond, or the disk is full; the request may be retried.",
}
_PATH: dict[str, dict[str, Any]] = {
    "project": {
        "description": "Name of the project; a slash is written `~1` and a tilde `~0`.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
    },
    "key": {"description": "Key of a series.", "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"}},
    "commit": {
        "description": "Hash of a commit, or a prefix of it.",
        "schema": {"type": "string", "pattern": "^[0-9a-fA-F]{4,64}$"},
    },
}
_ABOUT = """The data of the pages as JSON. Lists are paginated by `limit` and `offset`; `next` is the URL of the next
page, null on the last. Operations with a `format` parameter also return CSV, by `?format=csv` or `Accept: text/csv`.
Units are in field names or in `unit`; relative changes are fractions; unknown values are `null`; times are UTC.
Responses have an `ETag`: a request with `If-None-Match` gets 304 if nothing changed. Errors are problem details
(RFC 9457). Fields may be added."""


class _Schemas(GenerateJsonSchema):
    """pydantic's schemas without field titles, which repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(app: Flask) -> dict[str, Any]:
    """The document of all operations of the application."""
    order = list(app.view_functions)
    operations = sorted(_operations(app), key=lambda entry: order.index(entry[0].endpoint))
    responses = {operation.response for _, operation in operations} | {Problem}
    models = responses | {operation.params for _, operation in operations}
    models |= {operation.body for _, operation in operations if operation.body is not None}
    refs, schemas = models_json_schema(
        [(model, "serialization" if model in responses else "validation") for model in sorted(models, key=repr)],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Schemas,
    )
    components = schemas.get("$defs", {})
    paths: dict[str, Any] = {}
    for rule, operation in operations:
        method = next((write for write in _WRITES if write.upper() in (rule.methods or ())), "get")
        params = components[refs[operation.params, "validation"]["$ref"].rpartition("/")[2]]
        body = refs[operation.body, "validation"] if operation.body is not None else None
        paths.setdefault(_template(rule), {})[method] = _operation(
            rule,
            operation,
            method,
            params,
            body,
            refs[operation.response, "serialization"],
            refs[Problem, "serialization"],
        )
    for _, operation in operations:
        components.pop(refs[operation.params, "validation"]["$ref"].rpartition("/")[2], None)
    tags = list(dict.fromkeys(operation.tag for _, operation in operations))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "warpwatch",
            "version": "1.0.0",
            "summary": "Performance of GPU kernels by commit.",
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
                    "description": "A token of one project, from `warpwatch token create`.",
                }
            },
        },
    }


def _operations(app: Flask) -> Iterator[tuple[Rule, Operation]]:
    for rule in app.url_map.iter_rules():
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation is not None:
            yield rule, operation


def _template(rule: Rule) -> str:
    return re.sub(r"<(?:[^:>]+:)?([^>]+)>", r"{\1}", rule.rule)


def _operation(
    rule: Rule,
    operation: Operation,
    method: str,
    params: dict[str, Any],
    body: dict[str, Any] | None,
    response: dict[str, Any],
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
    content: dict[str, Any] = {"application/json": {"schema": response}}
    if operation.has_csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {
        "200": {"description": "The response.", "content": content, **({"headers": headers} if headers else {})}
    }
    if not is_upload:
        responses["304"] = {"description": _MEANINGS[304]}
    for status in sorted({*operation.statuses, *_ALWAYS}):
        responses[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}. {_MEANINGS[status]}",
            "content": {MEDIA_TYPE: {"schema": problem}},
        }
    upload = {
        "security": [{"token": []}],
        "requestBody": {
            "required": True,
            "description": ("The thresholds." if body is not None else f"Results of {KNOWN}, or an archive of them."),
            "content": (
                {"application/json": {"schema": body}} if body is not None else {"application/octet-stream": {}}
            ),
        },
    }
    return {
        "operationId": rule.endpoint.removeprefix("api_").replace(".", "_"),
        "tags": [operation.tag],
        "summary": operation.summary,
        **({"description": operation.description} if operation.description else {}),
        "parameters": [*_path_parameters(rule), *_query_parameters(params)],
        **(upload if is_upload else {}),
        "responses": responses,
    }


def _path_parameters(rule: Rule) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", _template(rule))
    return [{"name": name, "in": "path", "required": True, **_PATH[name]} for name in names]


def _query_parameters(params: dict[str, Any]) -> list[dict[str, Any]]:
    required = params.get("required", ())
    parameters = []
    for name, schema in params.get("properties", {}).items():
        rest = {key: value for key, value in schema.items() if key != "description"}
        description = {"description": schema["description"]} if "description" in schema else {}
        parameters.append(
            {"name": name, "in": "query", "required": name in required, **description, "schema": _without_null(rest)}
        )
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: an absent parameter is not in the URL."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf" and not (key == "default" and value is None)}
    return {**rest, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})}


_KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
_FORMATS = {"date-time": "time, ISO 8601", "date": "date, ISO 8601"}


def _inlined(node: Any, schemas: Mapping[str, Any]) -> Any:
    """The document with these schemas in place of references to them."""
    if isinstance(node, list):
        return [_inlined(item, schemas) for item in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node and _name(node["$ref"]) in schemas:
        return schemas[_name(node["$ref"])]
    return {key: _inlined(value, schemas) for key, value in node.items()}


def with_code(text: str) -> Markup:
    """The text as HTML, with <code> for backticks."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def _kind(schema: Mapping[str, Any]) -> str:
    """ "number or null", "list of CommitSchema", "one of step, drift"; empty for an enumeration of the empty text."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind for option in schema["anyOf"] if (kind := _kind(option))))
    if "enum" in schema or "const" in schema:
        values = [f"“{value}”" for value in schema.get("enum", [schema.get("const")]) if value]  # "" is the default
        return "one of " + ", ".join(values) if len(values) > 1 else "".join(values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if schema.get("type") == "object":
        return "names to " + _kind(schema["additionalProperties"]) if "additionalProperties" in schema else "object"
    kind = _FORMATS.get(schema.get("format", ""), _KINDS.get(schema.get("type", ""), schema.get("type", "anything")))
    bounds = [f"{word} {schema[name]:,}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    default = [f"default {schema['default']}"] if schema.get("default") not in (None, "") else []
    return ", ".join([" ".join([kind, *bounds]), *default])


def _nested_schema(schema: Mapping[str, Any]) -> str | None:
    """Name of the object schema, also in a list or a union with null."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    options = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return next(filter(None, map(_nested_schema, options)), None)


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


bp = Blueprint("api_document", __name__, url_prefix="/api")


@bp.get("/openapi.json")
def openapi() -> Response:
    """The OpenAPI 3.1 document."""
    return Response(orjson.dumps(_document()) + b"\n", content_type="application/json")


@bp.get("/")
def show() -> str:
    """Operations with their parameters, and the fields of all schemas."""
    document = _document()
    schemas = document["components"]["schemas"]
    enumerations = {name: schema for name, schema in schemas.items() if "properties" not in schema}
    return render_template(
        "api.html",
        document=_inlined(document, enumerations),
        kind=_kind,
        nested_schema=_nested_schema,
        with_code=with_code,
    )


def _document() -> dict[str, Any]:
    """Built once per application."""
    if "api_document" not in current_app.extensions:
        current_app.extensions["api_document"] = document(current_app)
    cached: dict[str, Any] = current_app.extensions["api_document"]
    return cached
