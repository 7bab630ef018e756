"""Template filters: the registration of labels, and those that need the clock or a figure."""

from datetime import datetime, timedelta

from flask import Flask

from ..model import quantities
from ..model.commit_links import commit_link, difference_link
from ..model.history import no_number
from ..model.machine import further_facts
from ..model.naming import alike, gpu_name, name_in_module, series_name
from ..model.quantities import relative_change
from ..text.change_words import software_words
from ..text.comparison_labels import drift_sentence, remark, short_remark
from ..text.labels import (
    across_words,
    as_utc,
    breakable,
    cause_words,
    change_word,
    compared_meaning,
    control_words,
    count,
    day,
    every,
    iso,
    kind_meaning,
    kind_name,
    kind_word,
    limit,
    moment,
    noise_by,
    percent,
    q_words,
    role_word,
    share_apart,
    share_words,
    short_hash,
    span,
    verdict_meaning,
    verdict_word,
    web_host,
    web_name,
)
from . import clock
from .figures.inline_charts import small_chart, sparkline
from .figures.style import look, page_json, themes_json


def register(app: Flask) -> None:
    """Put the filters, and the themes of figures, into the application's templates."""
    app.jinja_env.filters.update(
        quantity=quantities.quantity,
        throughput=quantities.throughput,
        latency=quantities.latency,
        change=quantities.change,
        change_arrow=quantities.change_arrow,
        change_range=quantities.change_range,
        share=quantities.share,
        share_apart=share_apart,
        limit=limit,
        gpu_name=gpu_name,
        ratio=quantities.ratio,
        number=quantities.number,
        change_word=change_word,
        across_words=across_words,
        cause_words=cause_words,
        kind_word=kind_word,
        kind_name=kind_name,
        kind_meaning=kind_meaning,
        share_words=share_words,
        control_words=control_words,
        relative_change=relative_change,
        web_name=web_name,
        web_host=web_host,
        q_words=q_words,
        role_word=role_word,
        percent=percent,
        implementation=implementation,
        no_number=no_number,
        verdict_word=verdict_word,
        verdict_meaning=verdict_meaning,
        compared_meaning=compared_meaning,
        noise_by=noise_by,
        drift_sentence=drift_sentence,
        remark=remark,
        short_remark=short_remark,
        short_hash=short_hash,
        day=day,
        moment=moment,
        age=age,
        span=span,
        every=every,
        iso=iso,
        count=count,
        sparkline=sparkline,
        small_chart=small_chart,
        software_words=software_words,
        figure_json=page_json,
        name_in_module=name_in_module,
        series_name=series_name,
        breakable=breakable,
        alike=alike,
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
