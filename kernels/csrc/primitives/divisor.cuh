// Division by a divisor known on the host, as a multiplication and a shift: GPUs have no integer division instruction, and the
// compiler emits about twenty. Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI 1994).
#pragma once

#include <cstdint>

namespace warpwatch {

class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t divisor) : divisor_(divisor), shift_(0) {  // 1 to 2^31
    while ((uint64_t{1} << shift_) < divisor) ++shift_;
    magic_ = static_cast<uint32_t>((((uint64_t{1} << shift_) - divisor) << 32) / divisor + 1);
  }

  // For numbers below 2^31.
  __device__ uint32_t quotient(uint32_t number) const { return (__umulhi(number, magic_) + number) >> shift_; }
  __device__ uint32_t divisor() const { return divisor_; }

 private:
  uint32_t divisor_, magic_, shift_;
};

}  // namespace warpwatch
