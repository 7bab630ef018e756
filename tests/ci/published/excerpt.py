"""Cuts what ci/forges asks of GitHub out of its whole description: python tests/ci/published/excerpt.py FILE.

FILE is generated/api.github.com.json of the npm package @octokit/openapi (`npm pack @octokit/openapi`).
"""

import json
import sys
from pathlib import Path
from typing import Any

_OPERATIONS = (
    ("get", "/user"),
    ("get", "/repos/{owner}/{repo}/pulls/{pull_number}"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("post", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("get", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("patch", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("delete", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("get", "/repos/{owner}/{repo}/commits/{ref}/check-runs"),
    ("post", "/repos/{owner}/{repo}/check-runs"),
    ("patch", "/repos/{owner}/{repo}/check-runs/{check_run_id}"),
    ("get", "/repos/{owner}/{repo}/collaborators/{username}/permission"),
)
_PROSE = {"description", "example", "examples", "externalDocs", "x-github", "x-octokit"}


def excerpt(whole: dict[str, Any]) -> dict[str, Any]:
    """Each operation: parameters, body, and the answer of success with an example of it; no references are left."""

    def resolved(node: Any, *, prose: bool = False) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                found = whole
                for part in node["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
                return resolved(found, prose=prose)
            return {key: resolved(each, prose=prose) for key, each in node.items() if prose or key not in _PROSE}
        return [resolved(each, prose=prose) for each in node] if isinstance(node, list) else node

    operations = {}
    for method, path in _OPERATIONS:
        operation = whole["paths"][path][method]
        status, answer = next((status, each) for status, each in operation["responses"].items() if status < "300")
        content = resolved(answer, prose=True).get("content", {}).get("application/json", {})
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        examples = content.get("examples", {})
        operations[f"{method} {path}"] = {
            "documentation": operation["externalDocs"]["url"],
            "parameters": resolved(operation.get("parameters", [])),
            "body": resolved(body),
            "status": int(status),
            "answer": resolved(content["schema"]) if content else None,
            "example": next((each["value"] for each in examples.values()), None),
        }
    return {"version": whole["info"]["version"], "license": whole["info"]["license"], "operations": operations}


if __name__ == "__main__":
    operation = excerpt(json.loads(Path(sys.argv[1]).read_text()))
    Path(__file__).with_name("github_api.json").write_text(json.dumps(operation, separators=(",", ":")) + "\n")
