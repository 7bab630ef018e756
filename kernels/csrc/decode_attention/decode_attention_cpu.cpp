// decode_attention over a contiguous cache, on the CPU: decode_attention_cpu.h has the loops.
#include "decode_attention/decode_attention_cpu.h"

namespace warpwatch {

void decode_attention_cpu(const DecodeAttentionParams& p, const ContiguousCache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

}  // namespace warpwatch
