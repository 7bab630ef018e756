"""What a kernel's mangled name contains."""

from warpbench.compiled.mangled_names import LaunchShape, kernel_name, launch_shape, signature

IN_FILE = "_ZN9warpwatch39_GLOBAL__N__ccfdd5ce_7_rope_cu_6fc0f13e11rope_piecesI6float2Lb1ELi4EEEvNS_10RopeParamsEii"
SHAPED = (
    "_ZN9warpwatch54_GLOBAL__N__01c0eba2_23_flash_attention_fp32_cu_a2f3d64127flash_attention_fp32_kernelILi128E"
    "NS_11LaunchShapeILi128ELi38400EEEEEvNS_20FlashAttentionParamsENS_22FlashAttentionScheduleE"
)


def test_a_kernel_is_called_by_its_function_alone():
    assert kernel_name(IN_FILE) == "rope_pieces"
    assert kernel_name("_Z10add_valuesPfi") == "add_values"
    assert kernel_name("_ZN9warpwatch4rope5applyILi4EEEvPKf") == "apply"
    assert kernel_name("plain_c") == "plain_c"


def test_the_signature_does_not_depend_on_where_the_file_was_compiled():
    elsewhere = IN_FILE.replace("ccfdd5ce", "01234567").replace("6fc0f13e", "89abcdef")
    assert signature(elsewhere) == signature(IN_FILE)
    assert signature(IN_FILE) != signature(IN_FILE.replace("Lb1E", "Lb0E"))


def test_a_kernel_with_a_launch_shape_carries_it_in_its_name():
    assert launch_shape(SHAPED) == LaunchShape(threads=128, dynamic_shared_bytes=38400)
    assert launch_shape(IN_FILE) is None
