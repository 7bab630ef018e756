"""Schemathesis sends the served API every request that its document allows, and many that it does not.

Half of the names in a question are of things that are there, and all of them in half of the questions: a path of random
words would only ever meet 404.
"""

import zlib
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import validate
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.dashboard.api.conftest import KERNELS, UPLOADS, Api
from tests.dashboard.pages.browsing import HOSTILE
from warpwatch.dashboard.web.urls import project_in_path

_EXAMPLES = 30  # of each operation


@pytest.fixture
def document(api: Api) -> Any:
    """The document as it is served, with hooks that put names in that are there."""
    schema = schemathesis.openapi.from_url(f"{api.url}/api/openapi.json")
    known = {
        "project": (KERNELS, HOSTILE.replace("~", "~0").replace("/", "~1"), UPLOADS),
        "key": api.keys,
        "commit": (*api.commits[:5], api.commits[0][:8]),
        "base": api.commits[:3],
        "head": api.commits[3:6],
        "from": api.commits[-1:],
        "to": api.commits[:2],
    }

    def with_known(_context: Any, values: dict[str, Any] | None) -> dict[str, Any] | None:
        for name, value in (values or {}).items():
            chosen = zlib.crc32(repr(value).encode())
            if isinstance(value, str) and name in known and chosen % 2:
                values = {**(values or {}), name: known[name][chosen // 2 % len(known[name])]}
        return values

    def with_known_only(_context: Any, case: Any) -> Any:
        """Names of every kind at once: chance seldom gives a known project with two known commits."""
        parts = (case.path_parameters, case.query)
        if zlib.crc32(repr(parts).encode()) % 2:
            for part in filter(None, parts):
                for name, value in part.items():
                    if isinstance(value, str) and name in known and value not in known[name]:
                        part[name] = known[name][zlib.crc32(repr(value).encode()) // 2 % len(known[name])]
        return case

    schema.hook("map_path_parameters")(with_known)
    schema.hook("map_query")(with_known)
    schema.hook("map_case")(with_known_only)
    return schema


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
def test_no_question_meets_an_error_of_the_server_or_a_breach_of_contract(
    mode: GenerationMode, document: Any, api: Api
) -> None:
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and _allows_no_wrong_question(operation):
            continue
        answered = _call(operation, mode, api)
        if mode is GenerationMode.POSITIVE and operation.method == "get":
            assert answered[200] > 0, f"{operation.label} never found anything: {answered}"


def _call(operation: Any, mode: GenerationMode, api: Api) -> Counter[int]:
    """How often each status came back."""
    answered: Counter[int] = Counter()
    # No schema says which bytes are results, nor which rules state anything: to refuse others is what an upload is for.
    left_out = [ignored_auth, *([positive_data_acceptance] if operation.method in {"post", "put"} else [])]

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=_EXAMPLES,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        headers = {"Authorization": f"Bearer {api.token}"}
        answered[case.call_and_validate(headers=headers, excluded_checks=left_out).status_code] += 1

    call()
    return answered


def _allows_no_wrong_question(operation: Any) -> bool:
    """Whether it takes nothing but a project's name, which may be any word."""
    takes = {parameter.name for part in (operation.path_parameters, operation.query) for parameter in part}
    return takes == {"project"} and not operation.body


def test_the_document_is_openapi_3_1_to_the_letter(api: Api) -> None:
    document = requests.get(f"{api.url}/api/openapi.json", timeout=60).json()
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_every_operation_answers_for_every_project_that_is_there(api: Api) -> None:
    document = requests.get(f"{api.url}/api/openapi.json", timeout=60).json()
    asked = 0
    for path, methods in document["paths"].items():
        is_of_two_commits = path.endswith(("/comparison", "/release"))
        if "get" not in methods or "{key}" in path or "{commit}" in path or is_of_two_commits:
            continue
        for project in (KERNELS, HOSTILE):
            has_none = path.endswith("/roofline") and project == HOSTILE
            answer = requests.get(api.url + path.replace("{project}", project_in_path(project)), timeout=60)
            assert answer.status_code == (404 if has_none else 200), (path, quote(project), answer.text)
            asked += 1
    assert asked > 15
