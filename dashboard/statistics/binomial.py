"""The interval of a share that was counted: Clopper and Pearson, "The use of confidence or fiducial limits illustrated
in the case of the binomial" (Biometrika 26:4, 1934). It holds its level for every share, also where none was seen.
"""

from dataclasses import dataclass

_TAIL = 0.025  # on either side of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, with the 95 % interval of the share behind it."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share that was seen."""
        return self.count / self.of


def counted_share(count: int, of: int) -> Share | None:
    """The share of `count` among `of`; None of nothing. Assumes that the cases are independent."""
    if of == 0:
        return None
    from scipy.special import betaincinv  # half a second to load, which most commands do without

    low = 0.0 if count == 0 else float(betaincinv(count, of - count + 1, _TAIL))
    high = 1.0 if count == of else float(betaincinv(count + 1, of - count, 1 - _TAIL))
    return Share(count=count, of=of, low=low, high=high)
