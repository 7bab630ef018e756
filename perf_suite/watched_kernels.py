"""Which kernels' machine code is watched, by operator, and for which architectures. No torch here."""

ARCHITECTURES = ("sm_75", "sm_86", "sm_89", "sm_90a")

WATCHED_KERNELS: dict[str, tuple[str, ...]] = {
    "flash_attention": (
        "flash_attention_fp32_kernel",
        "flash_attention_sm75_kernel",
        "flash_attention_sm80_kernel",
    ),
    "int4_linear": ("int4_linear_batch", "int4_linear_decode", "int4_linear_sum"),
    "rope": ("rope_pairs", "rope_pieces"),
}


def operator_of(kernel: str) -> str | None:
    """The operator a kernel belongs to, or None if it is not watched."""
    for operator, kernels in WATCHED_KERNELS.items():
        if kernel in kernels:
            return operator
    return None
