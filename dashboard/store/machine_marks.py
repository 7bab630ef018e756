"""Where in a history the machine became another one, as its runs tell: another card, driver or library."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpwatch.dashboard.naming import card_name, cudnn_version

_WORDS = {"gpu": "GPU", "driver": "driver", "torch": "PyTorch", "cuda": "CUDA", "cudnn": "cuDNN", "triton": "Triton"}


class RunFacts(NamedTuple):
    """What may move a whole machine's numbers; None where a run does not tell."""

    gpu: str | None
    driver: str | None
    torch: str | None
    cuda: str | None
    cudnn: str | None
    triton: str | None


class Taken(NamedTuple):
    """A commit of a history, what its last run tells (a key of the facts), and the physical card of that run."""

    commit: int
    facts: int
    card: str | None


_UNTOLD = RunFacts(*[None] * len(RunFacts._fields))


def machine_marks(taken: Sequence[Taken], facts: Mapping[int, RunFacts]) -> list[tuple[int, str]]:
    """The commits from which on something is another, and what, in the order of the history."""
    found: list[tuple[int, str]] = []
    told, card = _UNTOLD, None
    for each in taken:
        now = facts.get(each.facts, _UNTOLD)
        words = [
            f"{_WORDS[name]} {_version(name, old)} → {_version(name, new)}" for name, old, new in _difference(told, now)
        ]
        if each.card is not None and card is not None and each.card != card:
            words.insert(0, f"card {card_name(each.card)}")
        if words:
            found.append((each.commit, ", ".join(words)))
        card = each.card if each.card is not None else card
        if now is not _UNTOLD and now != told:
            told = RunFacts(*(new if new is not None else old for old, new in zip(told, now, strict=True)))
    return found


def _version(name: str, said: str) -> str:
    return cudnn_version(said) if name == "cudnn" else said


def _difference(before: RunFacts, after: RunFacts) -> list[tuple[str, Any, Any]]:
    """The facts that both tell and that differ: name, before, after."""
    if before == after:
        return []
    pairs = zip(RunFacts._fields, before, after, strict=True)
    return [(name, old, new) for name, old, new in pairs if old is not None and new is not None and old != new]
