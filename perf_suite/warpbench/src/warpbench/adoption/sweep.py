"""One function of a benchmark file, over the cases and providers that the file measures it with. No torch here."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..cost import ELEMENT_BYTES, UNKNOWN_DTYPE

Value = int | float | bool | str

_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}


class NotAdoptedError(Exception):
    """A file has nothing that can be adopted, or no longer has what was; the message names the file and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptCase:
    """One point of a sweep."""

    name: str
    shape: Mapping[str, Value]
    axis: tuple[str, ...]  # names in `shape` of the swept values; the others are fixed
    dtype: str | None
    providers: tuple[str, ...]
    call: Callable[[str, Mapping[str, Value]], Any]  # the file's function for a provider and values of the axis
    unnamed: str = ""  # values that the name leaves out, as `unnamed` writes them

    def fixed(self) -> dict[str, Value]:
        """The values that are not swept."""
        return {name: value for name, value in self.shape.items() if name not in self.axis}


@dataclass(slots=True, kw_only=True)
class Sweep:
    """All cases of one function."""

    name: str
    cases: dict[str, SweptCase] = field(default_factory=dict)
    baselines: frozenset[str] | None = None  # None where the file names none

    def add(self, case: SweptCase) -> None:
        """Take one more case. A file that measures the same one twice measures one case.

        Different cases of equal names get a suffix, from the second on.
        """
        known = self.cases.get(case.name)
        if known is not None and known.unnamed != case.unnamed:
            case = replace(case, name=f"{case.name}-{case.unnamed}")
        self.cases.setdefault(case.name, case)

    @property
    def providers(self) -> tuple[str, ...]:
        """Providers of any case, in the file's order."""
        return tuple(dict.fromkeys(provider for case in self.cases.values() for provider in case.providers))

    def case(self, name: str, shape: Mapping[str, Value]) -> tuple[SweptCase, Mapping[str, Value]]:
        """A case that was adopted, and the values of its axis.

        A file may choose its values by the machine's memory: then the adopted values are put to the file's function.
        Raises NotAdoptedError where no case has the same fixed values.
        """
        if name in self.cases:
            return self.cases[name], shape
        for case in self.cases.values():
            fixed = {name: value for name, value in shape.items() if name not in case.axis}
            if case.axis and set(case.axis) <= set(shape) and fixed == case.fixed():
                return case, shape
        raise NotAdoptedError(f"the file no longer measures {self.name} {name}; `warpbench adopt` adopts it anew")


def word(value: Any) -> str:
    """A value as a part of a name: letters, digits and `. _ + -`."""
    text = str(value)
    if text.startswith("torch."):
        text = text.removeprefix("torch.")
        text = _DTYPES.get(text, text)
    return re.sub(r"[^\w.+-]+", "_", text).strip("_") or "none"


def scalars(values: Mapping[str, Any]) -> dict[str, Value]:
    """The values that a case records: numbers, texts, and dtypes as texts."""
    found: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, int | float | str):  # bool is an int
            found[name] = value
        elif _is_dtype(value):
            found[name] = word(value)
    return found


def dtype_of(values: Iterable[Any]) -> str | None:
    """The dtype that a case's values name; None where there is none, several, or one that warpbench has no name for."""
    words = {word(value) for value in values if _is_dtype(value)}
    words |= {_DTYPES.get(value, value) for value in values if isinstance(value, str)} & set(ELEMENT_BYTES)
    return words.pop() if len(words) == 1 and words <= set(ELEMENT_BYTES) else None


def case_name(parts: Iterable[tuple[str, Any]]) -> str:
    """`forward-H=1024-bf16` of the parts ("", "forward"), ("H", 1024), ("dtype", torch.bfloat16)."""
    words = []
    for name, value in parts:
        text = word(value)
        words.append(text if not name or _is_dtype(value) else f"{word(name)}={text}")
    return "-".join(words) or UNKNOWN_DTYPE


def unnamed(values: Mapping[str, Any]) -> str:
    """Dictionaries, sequences and None among a case's values, as a part of a name; objects have no text that stays."""
    words = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            words.append(case_name((key, each) for key, each in value.items() if _has_lasting_text(each)))
        elif not isinstance(value, int | float | str) and _has_lasting_text(value):
            words.append(f"{word(name)}={word(value)}")
    return "-".join(words)


def _has_lasting_text(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_has_lasting_text, value))
    return value is None or isinstance(value, int | float | str) or _is_dtype(value)


def _is_dtype(value: Any) -> bool:
    return type(value).__module__ == "torch" and type(value).__name__ == "dtype"
