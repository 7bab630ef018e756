"""What must hold of every workflow here, whatever linters think of it. Each rule yields what breaks it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .workflow_files import Workflow, jobs, steps, triggers

Rule = Callable[[Workflow], Iterator[str]]
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_OURS = "$/"  # this repository, at the commit of the workflow itself
_FOREIGN = {
    "pull_request",
    "issue_comment",
    "workflow_run",
    "discussion_comment",
    "issues",
}  # who starts it may be anyone


def is_on_gpu(job: Mapping[str, Any]) -> bool:
    """Whether it runs on a machine of ours, and so the code that is measured."""
    return "self-hosted" in job.get("runs-on", [])


def is_trusted(job: Mapping[str, Any]) -> bool:
    """Whether it holds anything worth stealing."""
    permissions = job.get("permissions", {})
    return "write" in str(permissions) or "secrets." in str(job) or job.get("secrets") is not None


def actions_are_pinned(workflow: Workflow) -> Iterator[str]:
    """By the full hash of a commit: a tag can be moved."""
    for name, job in jobs(workflow):
        for used in [job.get("uses"), *(step.get("uses") for step in steps(job))]:
            if used and not used.startswith(_OURS) and not _PINNED.fullmatch(used):
                yield f"{name}: {used} is not pinned"


def rights_are_given_by_job(workflow: Workflow) -> Iterator[str]:
    """None for all, and each job its own."""
    if workflow.get("permissions") != {}:
        yield "the workflow has permissions"
    for name, job in jobs(workflow):
        if not isinstance(job.get("permissions"), dict):
            yield f"{name} does not say its permissions"


def jobs_end(workflow: Workflow) -> Iterator[str]:
    """GitHub's own limit is six hours."""
    for name, job in jobs(workflow):
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"{name} has no time limit"


def gpu_jobs_hold_nothing(workflow: Workflow) -> Iterator[str]:
    """They run code that others wrote: no secrets, no token, no cache that others read, and one artefact."""
    for name, job in jobs(workflow):
        if not is_on_gpu(job):
            continue
        if job.get("permissions") != {"contents": "read"}:
            yield f"{name} may do more than read"
        if "secrets" in str(job) or "token" in str(job):
            yield f"{name} names a secret or a token"
        if workflow.get("cache-mode") != "none":
            yield f"{name} may leave something in a cache"
        uploads = [step for step in steps(job) if "upload-artifact" in step.get("uses", "")]
        if len(uploads) != 1:
            yield f"{name} leaves {len(uploads)} artefacts"


def gpus_are_used_one_at_a_time(workflow: Workflow) -> Iterator[str]:
    """One group for each kind of GPU, where a waiting job is not cancelled."""
    for name, job in jobs(workflow):
        wanted = {"group": "warpwatch-${{ matrix.gpu }}", "cancel-in-progress": "false", "queue": "max"}
        if is_on_gpu(job) and job.get("concurrency") != wanted:
            yield f"{name} may share its GPU with another job, or lose its place"


def jobs_with_write_permission_check_nothing_out(workflow: Workflow) -> Iterator[str]:
    """Nothing that a pull request can change is there to be run; and not on a machine where its code ran."""
    for name, job in jobs(workflow):
        if not is_trusted(job):
            continue
        if any("checkout" in step.get("uses", "") for step in steps(job)):
            yield f"{name} may write, and checks code out"
        if any(re.search(r"\bgit (clone|fetch|pull)\b|\bgh\b", step.get("run", "")) for step in steps(job)):
            yield f"{name} may write, and fetches code"
        if is_on_gpu(job):
            yield f"{name} may write, and runs on a GPU's machine"


def strangers_start_nothing_trusted(workflow: Workflow) -> Iterator[str]:
    """A pull request's own version of a workflow must not reach the GPUs, nor write."""
    events = triggers(workflow)
    if "pull_request_target" in events:
        yield "it is triggered by pull_request_target"
    if "pull_request" in events:
        for name, job in jobs(workflow):
            if is_on_gpu(job) or is_trusted(job) or "uses" in job:
                yield f"{name} is what a pull request says it is, and is trusted"
    if events & (_FOREIGN - {"pull_request"}) and workflow.get("cache-mode") != "none":
        yield "anyone starts it, and it may use main's caches"


def scripts_are_constant(workflow: Workflow) -> Iterator[str]:
    """What GitHub puts into a script's text is run: values come by the environment."""
    for name, job in jobs(workflow):
        for step in steps(job):
            if "${{" in step.get("run", ""):
                yield f"{name}: {step.get('name')} has an expression in its script"


def checkouts_forget_their_token(workflow: Workflow) -> Iterator[str]:
    """Else it lies in .git/config for whatever runs next."""
    for name, job in jobs(workflow):
        for step in steps(job):
            is_checkout = "actions/checkout@" in step.get("uses", "")
            if is_checkout and step.get("with", {}).get("persist-credentials") != "false":
                yield f"{name} leaves its token in the checkout"


RULES: tuple[Rule, ...] = (
    actions_are_pinned,
    rights_are_given_by_job,
    jobs_end,
    gpu_jobs_hold_nothing,
    gpus_are_used_one_at_a_time,
    jobs_with_write_permission_check_nothing_out,
    strangers_start_nothing_trusted,
    scripts_are_constant,
    checkouts_forget_their_token,
)
