"""What makes a view an operation of the API: its question is read, its answer written, and the document knows both."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import cleandoc
from typing import Any

from flask import Blueprint, Response
from pydantic import BaseModel

from .query_params import Paged, Question, Table, asked
from .responses import answer_response, wants_whole_list, whole_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one address, as the document tells it."""

    question: type[Question]
    answer: type[BaseModel]
    tag: str
    summary: str
    description: str
    body: type[BaseModel] | None  # of the request, where it is JSON
    statuses: tuple[int, ...]  # of problems that are its own, beside those that any may have

    @property
    def has_csv(self) -> bool:
        """Whether it also answers with CSV."""
        return issubclass(self.question, Table)


def operation(
    bp: Blueprint,
    rule: str,
    *,
    question: type[Question],
    answer: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...] = (404,),
) -> Callable[[Callable[..., BaseModel]], Callable[..., Response]]:
    """Makes `view(*path, question) -> answer` a GET of the blueprint. Its docstring is what the document says of it."""

    def decorate(view: Callable[..., BaseModel]) -> Callable[..., Response]:
        @wraps(view)
        def answered(**path: str) -> Response:
            told = asked(question)
            if isinstance(told, Paged) and wants_whole_list(told):
                return whole_list(lambda part: view(**path, asked=part), told)
            return answer_response(view(**path, asked=told), told)

        describe(answered, view.__doc__, question=question, answer=answer, tag=tag, statuses=statuses)
        bp.get(rule)(answered)
        return answered

    return decorate


def describe(
    view: Callable[..., Any],
    docstring: str | None,
    *,
    question: type[Question],
    answer: type[BaseModel],
    tag: str,
    statuses: tuple[int, ...],
    body: type[BaseModel] | None = None,
) -> None:
    """Leaves at the view what the document is to tell of it."""
    summary, _, description = cleandoc(docstring or "").partition("\n\n")
    told = Operation(
        question=question,
        answer=answer,
        tag=tag,
        summary=summary.rstrip("."),
        statuses=statuses,
        body=body,
        description=description.replace("\n", " "),
    )
    view.operation = told  # type: ignore[attr-defined]


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """What `describe` left there; None for a page's view."""
    return getattr(view, "operation", None)
