#include "framework/parallel.h"

#include "framework/torch_stable.h"

namespace warpwatch {

void parallel_for(int64_t begin, int64_t end, int64_t grain, void (*part)(int64_t, int64_t, void*), void* work) {
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, part, work));
}

}  // namespace warpwatch
