"""The GPUs that a process of this environment may use, by the UUIDs of the cards."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

_CARD = re.compile(r"GPU (?P<index>\d+): (?P<name>.*) \(UUID: (?P<uuid>GPU-[\w-]+)\)")
_SLICE = re.compile(r"\s+MIG .*\(UUID: (?P<uuid>MIG-[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    index: int  # by PCI bus, as nvidia-smi counts
    name: str
    uuid: str
    slices: list[str] = field(default_factory=list)  # UUIDs of MIG devices


def visible_gpus(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """UUIDs of the physical cards that CUDA_VISIBLE_DEVICES leaves, in order; a MIG slice counts as its card.

    Without a driver there is none. CUDA counts unlike cards by speed, unless CUDA_DEVICE_ORDER says otherwise: a number
    then tells no card, and stands for all.
    """
    environ = os.environ if environ is None else environ
    cards = _cards(environ)
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(card.uuid for card in cards)
    by_bus = len({card.name for card in cards}) < 2 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    found: list[str] = []
    for word in wanted.split(","):
        word = word.strip()
        if word.isdecimal():
            mine = [card for card in cards if card.index == int(word) or not by_bus]
        else:
            mine = [card for card in cards if word and any(one.startswith(word) for one in (card.uuid, *card.slices))]
        if not mine:
            break  # CUDA too looks no further than the first that it does not know
        found += [card.uuid for card in mine]
    return tuple(dict.fromkeys(found))


def _cards(environ: Mapping[str, str]) -> list[_Card]:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], env=environ, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):  # not there, or not to be run
        return []
    cards: list[_Card] = []
    for line in done.stdout.splitlines():
        if card := _CARD.match(line):
            cards.append(_Card(index=int(card["index"]), name=card["name"], uuid=card["uuid"]))
        elif (part := _SLICE.match(line)) and cards:
            cards[-1].slices.append(part["uuid"])
    return cards
