"""What a row's state is called on a page, and what it says."""

from warpwatch.dashboard.quantities import change, number
from warpwatch.dashboard.store.standing import Standing, State

ENOUGH_COMMITS = 4  # with a number on one card, before "unchanged" is said: statistics/summary.py

_WORDS = {
    State.REGRESSED: "Regressed",
    State.STOPPED: "Stopped",
    State.INVALID: "Invalid",
    State.UNJUDGED: "Not yet judged",
    State.IMPROVED: "Improved",
    State.MAY_BE_CHANCE: "May be chance",
    State.UNCHANGED: "Unchanged",
    State.NEW_CARD: "New card",
    State.NEW: "Too new",
    State.MISSING: "Missing",
}
_MEANINGS = {
    State.REGRESSED: "Its level moved for the worse within the last 30 days, and stayed",
    State.STOPPED: "Its machine goes on measuring and leaves it out, for longer than three times its usual distance",
    State.INVALID: "Recorded at the newest commit, but throttled, wrong or failed: no number",
    State.UNJUDGED: "Its level moved within the last 30 days; whether a commit or the machine did it, is being judged",
    State.IMPROVED: "Its level moved for the better within the last 30 days, and stayed",
    State.MAY_BE_CHANCE: "Its level moved within the last 30 days; among so many series chance alone may look so,"
                         " until more runs bear it out",
    State.UNCHANGED: "No change of level within the last 30 days",
    State.NEW_CARD: "Another physical card measures it now. Cards are not compared: its history starts anew, and from"
                    f" {ENOUGH_COMMITS} commits on it can be told",
    State.NEW: f"Fewer than {ENOUGH_COMMITS} commits have a number: from then on it can be told",
    State.MISSING: "Nothing recorded, or not available on this machine",
}  # fmt: skip


def state_word(state: State) -> str:
    """The state as a heading word."""
    return _WORDS[state]


def state_meaning(state: State) -> str:
    """One sentence on what the state says."""
    return _MEANINGS[state]


def state_detail(standing: Standing) -> str:
    """What a row's own history adds to its state; empty if nothing."""
    row = standing.row
    if standing.state is State.MAY_BE_CHANCE and row.change is not None and row.change_q is not None:
        return f"{change(row.change)}, q {number(row.change_q)}"
    if standing.state is State.NEW_CARD:
        return f"{standing.card_commits} of {ENOUGH_COMMITS} commits on this card"
    if standing.state is State.NEW:
        return f"{standing.numbers} of {ENOUGH_COMMITS} commits"
    return ""
