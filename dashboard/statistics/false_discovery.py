"""How many of the changes told together are false: the false discovery rate of a family of series."""

from collections.abc import Sequence

LIMIT = 0.05  # the q up to which a step is told as one; beyond it may be chance


def q_values(chances: Sequence[float], family: int) -> tuple[float, ...]:
    """The q of each chance among `family` series, of which the rest show nothing; at most 1.

    Taking all changes with a q of at most x, the expected share of false ones is at most x (Benjamini and Hochberg,
    "Controlling the false discovery rate", JRSS B 57:289, 1995, as adjusted p-values). That holds for independent
    series and for those that positively depend on each other, as a machine's do (Benjamini and Yekutieli, "The control
    of the false discovery rate in multiple testing under dependency", Annals of Statistics 29:1165, 2001).
    Raises ValueError if there are more chances than series.
    """
    if len(chances) > family:
        raise ValueError(f"{len(chances)} changes in a family of {family} series: one a series at most")
    found = [1.0] * len(chances)
    least = 1.0
    by_size = sorted(range(len(chances)), key=chances.__getitem__)
    for rank, place in reversed(list(enumerate(by_size, start=1))):
        least = min(least, chances[place] * family / rank)
        found[place] = least
    return tuple(found)
