"""Triton's compiler, for GPUs that are not here."""

from collections.abc import Collection, Mapping
from typing import Any


def compile_for(
    compute_capability: int,
    function: Any,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    *,
    lengths: Collection[str] = (),
    aligned: bool = True,
    **options: int,
) -> Any:
    """What a launch on such a GPU compiles; an argument without a type is an i32.

    If aligned, pointers, strides and `lengths` are multiples of 16, as a launch finds those of tracked shapes: without
    that, elements are loaded one by one, which takes several times as much code.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = function.arg_names
    multiples = [at for at, name in enumerate(names) if name.endswith(("_ptr", "_stride")) or name in lengths]
    return triton.compile(
        ASTSource(
            function,
            {name: "constexpr" if name in constants else types.get(name, "i32") for name in names},
            constexprs=constants,
            attrs={(at,): [["tt.divisibility", 16]] for at in multiples} if aligned else {},
        ),
        target=GPUTarget("cuda", compute_capability, 32),
        options=options,
    )
