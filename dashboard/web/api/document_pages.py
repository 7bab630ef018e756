"""`/api/openapi.json`, and the same document as a page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Blueprint, Response, current_app, render_template
from markupsafe import Markup

from .openapi_document import document

# The document as the page `/api/` shows it: operations by their tag, fields in words.

_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter or a field of an answer."""

    name: str
    kind: str
    meaning: str
    is_required: bool
    shape: str | None  # the object that stands there, with a section of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One operation."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Field, ...]
    answer: str  # the name of its shape
    media: tuple[str, ...]
    problems: tuple[str, ...]  # its statuses
    needs_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeTold:
    """One object of the answers."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """The whole page."""

    operations: Mapping[str, tuple[Told, ...]]  # by tag
    shapes: tuple[ShapeTold, ...]


def sections(document: Mapping[str, Any]) -> Sections:
    """The parts of a document of ours. One of a few words is told where it stands, an object in a section."""
    words = {name: each for name, each in document["components"]["schemas"].items() if "properties" not in each}
    document = _inlined(document, words)
    by_tag: dict[str, list[Told]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            by_tag[told["tags"][0]].append(_operation(path, method, told))
    schemas = document["components"]["schemas"]
    return Sections(
        operations={tag: tuple(found) for tag, found in by_tag.items()},
        shapes=tuple(
            ShapeTold(name=name, meaning=schema.get("description", ""), fields=tuple(_fields(schema)))
            for name, schema in schemas.items()
            if "properties" in schema
        ),
    )


def _inlined(node: Any, words: Mapping[str, Any]) -> Any:
    """The document with these schemas in place of what refers to them."""
    if isinstance(node, list):
        return [_inlined(each, words) for each in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node and _name(node["$ref"]) in words:
        return words[_name(node["$ref"])]
    return {key: _inlined(value, words) for key, value in node.items()}


def coded(text: str) -> Markup:
    """A sentence of the document with what stands between backticks as code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def _operation(path: str, method: str, told: Mapping[str, Any]) -> Told:
    done = told["responses"]["200"]["content"]
    return Told(
        id=told["operationId"],
        method=method.upper(),
        path=path,
        summary=told["summary"],
        description=told.get("description", ""),
        parameters=tuple(
            Field(
                name=each["name"],
                kind=_kind(each["schema"]),
                meaning=each.get("description", ""),
                is_required=each["required"],
                shape=None,
            )
            for each in told["parameters"]
        ),
        answer=_name(done["application/json"]["schema"]["$ref"]),
        media=tuple(done),
        problems=tuple(status for status in told["responses"] if int(status) >= 400),
        needs_token=bool(told.get("security")),
    )


def _fields(schema: Mapping[str, Any]) -> Iterator[Field]:
    for name, inner in schema["properties"].items():
        yield Field(
            name=name,
            kind=_kind(inner),
            meaning=inner.get("description", ""),
            is_required=name in schema.get("required", ()),
            shape=_shape(inner),
        )


def _kind(schema: Mapping[str, Any]) -> str:
    """ "number or null", "list of CommitSchema", "one of step, drift"; nothing for the empty text alone."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind for each in schema["anyOf"] if (kind := _kind(each))))
    if "enum" in schema or "const" in schema:
        named = [f"“{each}”" for each in schema.get("enum", [schema.get("const")]) if each]
        return "one of " + ", ".join(named) if len(named) > 1 else "".join(named)  # "" is the same as nothing asked
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if schema.get("type") == "object":
        return "names to " + _kind(schema["additionalProperties"]) if "additionalProperties" in schema else "object"
    formats = {"date-time": "time, ISO 8601", "date": "date, ISO 8601"}
    kind = formats.get(schema.get("format", ""), _KINDS.get(schema.get("type", ""), schema.get("type", "anything")))
    bounds = [f"{word} {schema[name]:,}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    default = [f"default {schema['default']}"] if schema.get("default") not in (None, "") else []
    return ", ".join([" ".join([kind, *bounds]), *default])


def _shape(schema: Mapping[str, Any]) -> str | None:
    """The name of the object in it, alone, in a list or beside null."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return next(filter(None, map(_shape, inner)), None)


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


bp = Blueprint("api_document", __name__, url_prefix="/api")


@bp.get("/openapi.json")
def openapi() -> Response:
    """The OpenAPI 3.1 document."""
    return Response(orjson.dumps(_document()) + b"\n", content_type="application/json")


@bp.get("/")
def show() -> str:
    """Every operation with its parameters, and the fields of every answer."""
    told = _document()
    return render_template("api.html", told=told, sections=sections(told), coded=coded)


def _document() -> dict[str, Any]:
    """Made once: it does not change while the application runs."""
    if "api_document" not in current_app.extensions:
        current_app.extensions["api_document"] = document(current_app)
    made: dict[str, Any] = current_app.extensions["api_document"]
    return made
