"""Decorator of API views: reads the query parameters, writes the response, and describes both for OpenAPI."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import cleandoc
from typing import Any

from flask import Blueprint, Response
from pydantic import BaseModel

from .query_params import CsvParams, PageParams, QueryParams, read_params
from .responses import respond, wants_whole_list, whole_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the OpenAPI document."""

    params: type[QueryParams]
    response: type[BaseModel]
    tag: str
    summary: str
    description: str
    body: type[BaseModel] | None  # of the request, if it is JSON
    statuses: tuple[int, ...]  # of its own problems, besides those of every operation

    @property
    def has_csv(self) -> bool:
        """Whether the response is also available as CSV."""
        return issubclass(self.params, CsvParams)


def operation(
    bp: Blueprint,
    rule: str,
    *,
    params: type[QueryParams],
    response: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...] = (404,),
) -> Callable[[Callable[..., BaseModel]], Callable[..., Response]]:
    """Register `view(*path, params) -> response` as a GET; its docstring is summary and description in OpenAPI."""

    def decorate(view: Callable[..., BaseModel]) -> Callable[..., Response]:
        @wraps(view)
        def endpoint(**path: str) -> Response:
            query = read_params(params)
            if isinstance(query, PageParams) and wants_whole_list(query):
                return whole_list(lambda page: view(**path, params=page), query)
            return respond(view(**path, params=query), query)

        describe(endpoint, view.__doc__, params=params, response=response, tag=tag, statuses=statuses)
        bp.get(rule)(endpoint)
        return endpoint

    return decorate


def describe(
    view: Callable[..., Any],
    docstring: str | None,
    *,
    params: type[QueryParams],
    response: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...],
    body: type[BaseModel] | None = None,
) -> None:
    """Attach an `Operation` to the view, for the OpenAPI document."""
    summary, _, description = cleandoc(docstring or "").partition("\n\n")
    view.operation = Operation(  # type: ignore[attr-defined]
        params=params,
        response=response,
        tag=tag,
        summary=summary.rstrip("."),
        statuses=statuses,
        body=body,
        description=description.replace("\n", " "),
    )


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """The operation that `describe` attached; None for the view of a page."""
    return getattr(view, "operation", None)
