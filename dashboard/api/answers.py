"""An answer as JSON or CSV, and the parts of lists."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from flask import Response, request, stream_with_context, url_for
from pydantic import BaseModel

from warpwatch.dashboard.api.csv_rows import as_csv
from warpwatch.dashboard.api.questions import Paged, Question, Table
from warpwatch.dashboard.api.shapes import Listing

Item = TypeVar("Item")
_PART = 5000  # items of a whole list that are held at once
_CSV = "text/csv; charset=utf-8; header=present"


def answer_response(answer: BaseModel, asked: Question) -> Response:
    """The answer in the form that was asked for."""
    if isinstance(asked, Table) and _wants_csv(asked):
        response = Response(as_csv(answer), content_type=_CSV)
    else:
        response = Response(answer.model_dump_json() + "\n", content_type="application/json")
    if isinstance(answer, Listing) and answer.next:
        response.headers["Link"] = f'<{answer.next}>; rel="next"'
    response.vary.add("Accept")
    return response


def whole_list(view: Callable[[Paged], BaseModel], asked: Paged) -> Response:
    """Every item as CSV: what is asked for without a limit is not cut. Long lists go out part by part."""
    first = view(asked.model_copy(update={"limit": _PART}))
    if not isinstance(first, Listing) or first.next is None:
        return answer_response(first, asked)

    def parts() -> Iterator[str]:
        yield as_csv(first)
        for offset in range(_PART, first.total, _PART):
            yield as_csv(view(asked.model_copy(update={"limit": _PART, "offset": offset})), has_head=False)

    response = Response(stream_with_context(parts()), content_type=_CSV)
    response.vary.add("Accept")
    return response


def wants_whole_list(asked: Question) -> bool:
    """Whether a list is asked for as CSV, and no part of it."""
    return isinstance(asked, Paged) and _wants_csv(asked) and not {"limit", "offset"} & set(request.args)


def listing(entries: Sequence[Item], asked: Paged) -> tuple[Sequence[Item], dict[str, Any]]:
    """This part of a whole list, and the fields that every list has."""
    return entries[asked.offset : asked.offset + asked.limit], place(len(entries), asked)


def place(total: int, asked: Paged) -> dict[str, Any]:
    """The fields that every list has."""
    after = asked.offset + asked.limit
    query = {**request.args.to_dict(), "limit": asked.limit, "offset": after}
    onward = url_for(request.endpoint or "", **{**query, **(request.view_args or {})}) if after < total else None
    return {"total": total, "limit": asked.limit, "offset": asked.offset, "next": onward}


def _wants_csv(asked: Table) -> bool:
    if asked.format is not None:
        return asked.format == "csv"
    return request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"
