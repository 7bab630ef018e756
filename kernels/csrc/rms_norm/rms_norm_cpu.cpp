#include "rms_norm/rms_norm.h"
#include "row_norm/row_norm_cpu.h"

namespace warpwatch {

void rms_norm_cpu(const RowNormParams& p) { row_norm_on_cpu<false>(p); }

}  // namespace warpwatch
