// decode_attention over a cache in pages, on the CPU: decode_attention_cpu.h has the loops.
#include "decode_attention/decode_attention_cpu.h"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {

void paged_decode_attention_cpu(const DecodeAttentionParams& p, const PagedCache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

}  // namespace warpwatch
