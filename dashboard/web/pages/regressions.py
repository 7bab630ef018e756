"""What got worse: cards by commit range and machine, newest or worst first, for people to say what each is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.explanation import TriageDetails, triage_details
from ...model.alert import LIVE
from ...model.series import Project
from ...model.triage_item import WAITING, TriageFilter, TriageItem, TriageOrder, TriageState
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.alerts import health_alerts
from ...store.notes import Annotation, annotations
from ...store.policy import stated_limits
from .. import clock
from ..request_context import page_number, pages, project_or_404, store, words_asked

bp = Blueprint("regressions", __name__)

_KINDS = tuple(kind for kind in ChangeKind if kind is not ChangeKind.UNJUDGED)
_CARDS_OF_A_PAGE = 15
_ROWS_OF_A_CARD = 5
_ROWS_OF_A_GROUP = 10
PERIODS = {"7": "last 7 days", "30": "last 30 days", "90": "last 90 days", "365": "last 365 days"}
# What an address may ask for: one standing, all that wait for somebody (the first), or all.
STATES: dict[str, tuple[TriageState, ...]] = {
    "": WAITING,
    **{standing.value.replace(" ", "-"): (standing,) for standing in TriageState},
    "all": tuple(TriageState),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChoice:
    """A link to the cards of a state."""

    name: str  # in the address
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCard:
    """A card with what it explains, and the notes on its commit."""

    card: TriageItem
    story: TriageDetails
    notes: tuple[Annotation, ...]


@bp.get("/<project:project>/regressions")
def show(project: str) -> str:
    """The cards, narrowed by state, machine, words and period.

    Another kind than steps, and with `direction=better` what improved, is listed and not triaged.
    """
    found = project_or_404(project)
    asked = request.args.get("kind", "")
    kind = ChangeKind(asked) if asked in set(_KINDS) else ChangeKind.STEP
    is_worse = request.args.get("direction", "") != "better"
    if kind is not ChangeKind.STEP or not is_worse:
        return _other_kind(found, kind, is_worse=is_worse)
    wanted = _filter()
    listed = queries.cards(
        store(),
        found.name,
        wanted,
        limit=_CARDS_OF_A_PAGE,
        offset=(page_number() - 1) * _CARDS_OF_A_PAGE,
        rows=_ROWS_OF_A_CARD,
    )
    health = [each for each in health_alerts(store(), found.name) if wanted.machine in {None, each.machine}]
    return render_template(
        "regressions.html",
        shown=_shown(found, listed.items),
        listed=listed,
        stated=stated_limits(store(), found.name),
        choices=[
            StateChoice(
                name=name,
                label=(name or "to do").replace("-", " ").capitalize(),
                count=sum(listed.counts.get(standing, 0) for standing in standings),
            )
            for name, standings in STATES.items()
        ],
        state=_state(),
        order=wanted.order,
        place=pages(_CARDS_OF_A_PAGE, listed.total),
        live_health=[each for each in health if each.state in LIVE],
        silenced_health=[each for each in health if each.state not in LIVE],
        **_frame(found, kind, is_worse=True),
    )


@bp.get("/<project:project>/regressions/<key>")
def one(project: str, key: str) -> ResponseReturnValue:
    """One regression with all its series: what to link from an issue. A health alert is shown in the list."""
    found = project_or_404(project)
    card = queries.card(store(), found.name, key)
    if card is None and key in {f"alert-{alert.id}" for alert in health_alerts(store(), found.name)}:
        return redirect(url_for(".show", project=project, _anchor=key))
    if card is None:
        abort(
            404,
            "There is no such regression any more: it was triaged meanwhile, or analysed again. "
            "The list of regressions has what became of it.",
        )
    return render_template("regression.html", one=_shown(found, [card])[0])


def _shown(project: Project, cards: Sequence[TriageItem]) -> tuple[ShownCard, ...]:
    between = queries.code_between(store(), project.name, cards)
    notes: dict[str, list[Annotation]] = {}
    for note in annotations(store(), project.name, commits=[card.commit.hash for card in cards]):
        notes.setdefault(note.commit, []).append(note)
    return tuple(
        ShownCard(card=card, story=triage_details(card, code), notes=tuple(notes.get(card.commit.hash, ())))
        for card, code in zip(cards, between, strict=True)
    )


def _filter() -> TriageFilter:
    asked = request.args.get("order", "")
    return TriageFilter(
        states=STATES[_state()],
        machine=request.args.get("machine") or None,
        words=words_asked(),
        since=_since(),
        order=TriageOrder(asked) if asked in set(TriageOrder) else TriageOrder.NEWEST,
    )


def _state() -> str:
    asked = request.args.get("state", "")
    return asked if asked in STATES else ""


def _period() -> str:
    asked = request.args.get("period", "")
    return asked if asked in PERIODS else ""


def _since() -> datetime | None:
    return clock.now() - timedelta(days=int(_period())) if _period() else None


def _frame(project: Project, kind: ChangeKind, *, is_worse: bool) -> dict[str, object]:
    """What the form of both lists shows."""
    return {
        "machine": request.args.get("machine", ""),
        "words": words_asked(),
        "period": _period(),
        "periods": PERIODS,
        "kind": kind,
        "is_worse": is_worse,
        "kinds": _KINDS,
        "machines": queries.machines(store(), project.name),
    }


def _other_kind(project: Project, kind: ChangeKind, *, is_worse: bool) -> str:
    """Changes that nobody has to do anything about: no commit is accused of them, or they are for the better."""
    frame = _frame(project, kind, is_worse=is_worse)
    machine = request.args.get("machine") or None
    listed = queries.unaccused(
        store(),
        project.name,
        kind,
        machine=machine,
        words=words_asked(),
        since=_since(),
        is_worse=is_worse,
        limit=_CARDS_OF_A_PAGE,
        offset=(page_number() - 1) * _CARDS_OF_A_PAGE,
    )
    place = pages(_CARDS_OF_A_PAGE, listed.total)
    return render_template(
        "regressions_of_a_kind.html", listed=listed, place=place, rows=_ROWS_OF_A_GROUP, state="", order=None, **frame
    )
