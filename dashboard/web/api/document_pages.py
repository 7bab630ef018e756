"""`/api/openapi.json`, and the same document as a page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Blueprint, Response, current_app, render_template
from markupsafe import Markup

from .openapi_document import document

_KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
_FORMATS = {"date-time": "time, ISO 8601", "date": "date, ISO 8601"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDoc:
    """A parameter, or a field of a schema."""

    name: str
    kind: str
    meaning: str
    is_required: bool
    schema: str | None  # name of the nested schema, which has a section of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDoc:
    """One operation."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[FieldDoc, ...]
    response: str  # name of its schema
    media: tuple[str, ...]
    problems: tuple[str, ...]  # status codes
    needs_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDoc:
    """One schema of a response."""

    name: str
    meaning: str
    fields: tuple[FieldDoc, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDoc:
    """The whole page."""

    operations: Mapping[str, tuple[OperationDoc, ...]]  # by tag
    schemas: tuple[SchemaDoc, ...]


def api_doc(document: Mapping[str, Any]) -> ApiDoc:
    """Operations and schemas of the OpenAPI document; enumerations are inlined, objects have sections."""
    components = document["components"]["schemas"]
    document = _inlined(document, {name: schema for name, schema in components.items() if "properties" not in schema})
    by_tag: dict[str, list[OperationDoc]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].append(_operation(path, method, operation))
    schemas = document["components"]["schemas"]
    return ApiDoc(
        operations={tag: tuple(operations) for tag, operations in by_tag.items()},
        schemas=tuple(
            SchemaDoc(name=name, meaning=schema.get("description", ""), fields=tuple(_fields(schema)))
            for name, schema in schemas.items()
            if "properties" in schema
        ),
    )


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


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> OperationDoc:
    content = operation["responses"]["200"]["content"]
    return OperationDoc(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        parameters=tuple(
            FieldDoc(
                name=parameter["name"],
                kind=_kind(parameter["schema"]),
                meaning=parameter.get("description", ""),
                is_required=parameter["required"],
                schema=None,
            )
            for parameter in operation["parameters"]
        ),
        response=_name(content["application/json"]["schema"]["$ref"]),
        media=tuple(content),
        problems=tuple(status for status in operation["responses"] if int(status) >= 400),
        needs_token=bool(operation.get("security")),
    )


def _fields(schema: Mapping[str, Any]) -> Iterator[FieldDoc]:
    for name, field in schema["properties"].items():
        yield FieldDoc(
            name=name,
            kind=_kind(field),
            meaning=field.get("description", ""),
            is_required=name in schema.get("required", ()),
            schema=_nested_schema(field),
        )


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
    openapi_document = _document()
    return render_template(
        "api.html", document=openapi_document, api_doc=api_doc(openapi_document), with_code=with_code
    )


def _document() -> dict[str, Any]:
    """Built once per application."""
    if "api_document" not in current_app.extensions:
        current_app.extensions["api_document"] = document(current_app)
    cached: dict[str, Any] = current_app.extensions["api_document"]
    return cached
