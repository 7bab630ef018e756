// int8_decode_attention on the CPU: decode_attention_cpu.h has the loops.
#include "decode_attention/decode_attention_cpu.h"
#include "int8_decode_attention/int8_decode_attention.h"

namespace warpwatch {

void int8_decode_attention_cpu(const DecodeAttentionParams& p, const Int8Cache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

}  // namespace warpwatch
