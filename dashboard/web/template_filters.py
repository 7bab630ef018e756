"""Template filters: the registration of labels, and those that need the clock or a figure."""

import inspect
from datetime import datetime, timedelta

from flask import Flask

from ..model import naming, quantities
from ..model.commit_links import commit_link, difference_link
from ..model.history import no_number
from ..model.machine import further_facts
from ..text import labels
from ..text.change_words import software_words
from ..text.comparison_labels import drift_sentence, remark, short_remark
from ..text.labels import as_utc, span
from . import clock
from .figures.inline_charts import small_chart, sparkline
from .figures.style import look, page_json, themes_json


def register(app: Flask) -> None:
    """Put the filters, and the themes of figures, into the application's templates."""
    modules = (naming, quantities, labels)  # whose functions are filters
    for module in modules:
        for name, each in inspect.getmembers(module, inspect.isfunction):
            if each.__module__ == module.__name__ and not name.startswith("_"):
                app.jinja_env.filters[name] = each
    app.jinja_env.filters.update(
        implementation=implementation,
        no_number=no_number,
        drift_sentence=drift_sentence,
        remark=remark,
        short_remark=short_remark,
        age=age,
        sparkline=sparkline,
        small_chart=small_chart,
        software_words=software_words,
        figure_json=page_json,
        further_facts=further_facts,
        commit_outside=commit_link,
        difference_outside=difference_link,
    )
    app.jinja_env.globals["figure_themes"] = themes_json


def implementation(name: str) -> str:
    """An implementation's name as its authors write it: `cublas` is cuBLAS."""
    return look(name).label


def age(time: datetime | None, now: datetime | None = None) -> str:
    """How long ago, in its largest unit: "5 min ago", "3 days ago", "2 years ago"."""
    if time is None:
        return "–"
    passed = (now or clock.now()) - as_utc(time)
    return f"{span(passed)} ago" if passed >= timedelta(minutes=1) else "just now"
