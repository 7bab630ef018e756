#include "layer_norm/layer_norm.h"
#include "row_norm/row_norm_cpu.h"

namespace warpwatch {

void layer_norm_cpu(const RowNormParams& p) { row_norm_on_cpu<true>(p); }

}  // namespace warpwatch
