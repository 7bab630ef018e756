"""A comparison's rows as columns, by which pages count and average thousands of them in each request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.comparison import ComparisonRow
from ..model.metric import Metric, metric
from ..model.verdict import Verdict

VERDICTS = tuple(Verdict)
_CODES = {verdict: code for code, verdict in enumerate(VERDICTS)}


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ComparisonColumns:
    """One entry a row, in the order of the rows."""

    verdict: NDArray[np.intp]  # index in VERDICTS
    kernel: NDArray[np.intp]  # index in `kernels`
    metric: NDArray[np.intp]  # index in `metrics`
    log_change: NDArray[np.float64]  # log(1 + change); NaN without a finite one
    has_base: NDArray[np.bool_]  # base has a number other than zero
    kernels: tuple[str, ...]
    metrics: tuple[Metric, ...]

    def __len__(self) -> int:
        return len(self.verdict)

    @property
    def nbytes(self) -> int:
        columns = (self.verdict, self.kernel, self.metric, self.log_change, self.has_base)
        return sum(column.nbytes for column in columns)

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> "ComparisonColumns":
        """The chosen rows: indices in order, or a flag for each row."""
        return ComparisonColumns(
            verdict=self.verdict[chosen],
            kernel=self.kernel[chosen],
            metric=self.metric[chosen],
            log_change=self.log_change[chosen],
            has_base=self.has_base[chosen],
            kernels=self.kernels,
            metrics=self.metrics,
        )


def comparison_columns(rows: Sequence[ComparisonRow]) -> ComparisonColumns:
    kernels = {name: code for code, name in enumerate(dict.fromkeys(row.kernel for row in rows))}
    units = dict.fromkeys((row.series.metric, row.series.unit) for row in rows)
    metrics = {named: code for code, named in enumerate(units)}
    changes = [row.estimate.change if row.estimate is not None else math.nan for row in rows]
    return ComparisonColumns(
        verdict=np.array([_CODES[row.verdict] for row in rows], dtype=np.intp),
        kernel=np.array([kernels[row.kernel] for row in rows], dtype=np.intp),
        metric=np.array([metrics[row.series.metric, row.series.unit] for row in rows], dtype=np.intp),
        log_change=np.array([math.log1p(each) if each > -1 else math.nan for each in changes], dtype=np.float64),
        has_base=np.array([bool(row.base) for row in rows], dtype=bool),
        kernels=tuple(kernels),
        metrics=tuple(metric(*named) for named in metrics),
    )
