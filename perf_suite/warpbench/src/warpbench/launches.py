"""What one call puts on its stream, seen by capturing it in a CUDA graph.

A graph shows kernels, copies and memsets by name without a profiler attached. Its replay also says whether the
call's work is all on the current stream, and whether the call is safe under CUDA graphs, as LLM inference wants it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .compiled.mangled_names import kernel_name
from .output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A captured call. `replay` does it again, in the memory of the captured output, on the current stream."""

    replay: Callable[[], Output]
    launched: dict[str, int] | None  # how often each, by name; None where cuda.bindings is not installed


class NotCapturableError(Exception):
    """The call cannot be captured: it waits for the GPU, leaves work on another stream, or the like.

    Such a call is not measured: what it does elsewhere the stopwatch would not see, and LLM inference replays graphs.
    """


def capture(run: Callable[[], Output], *, calls: int = 1) -> Captured:
    """Capture `calls` calls in a row on torch's current stream, which must not be the default one.

    `run` must have run before. Raises NotCapturableError, with the stream and torch's default generator as they were.
    """
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    try:
        with _capturing(graph):
            for _ in range(calls):
                out = run()
        graph.instantiate()
    except RuntimeError as error:
        torch.cuda.synchronize()
        _release_generator()
        raise NotCapturableError(f"a CUDA graph cannot capture it: {str(error).splitlines()[0]}") from error

    def replay() -> Output:
        graph.replay()
        return out

    return Captured(replay=replay, launched=_nodes(graph))


def _capturing(graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
    # thread_local: a library that allocates behind the scenes in another thread does not end the capture
    return torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local")


def _release_generator() -> None:
    """Let torch's default generator draw again after a failed capture.

    A capture takes the generator and gives it back at its end, which a failed one does not reach: until some capture
    succeeds, PyTorch (2.11 at least) refuses to draw, with "Offset increment outside graph capture encountered
    unexpectedly".
    """
    with _capturing(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")  # PyTorch warns of an empty graph


def _nodes(graph: torch.cuda.CUDAGraph) -> dict[str, int] | None:
    try:
        from cuda.bindings import driver
    except ImportError:
        return None
    handle = driver.CUgraph(int(graph.raw_cuda_graph()))
    _, _, count = driver.cuGraphGetNodes(handle, 0)
    _, nodes, _ = driver.cuGraphGetNodes(handle, count)
    kernel = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    names: Counter[str] = Counter()
    for node in nodes[:count]:
        _, kind = driver.cuGraphNodeGetType(node)
        if kind == kernel:
            _, parameters = driver.cuGraphKernelNodeGetParams(node)
            known = int(parameters.func) != 0
            _, name = driver.cuFuncGetName(parameters.func) if known else driver.cuKernelGetName(parameters.kern)
            names[kernel_name(name.decode() if isinstance(name, bytes) else str(name))] += 1
        else:
            word = kind.name.removeprefix("CU_GRAPH_NODE_TYPE_").lower()
            if word != "empty":
                names[word] += 1
    return dict(names)
