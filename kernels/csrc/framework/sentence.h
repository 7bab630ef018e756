// Error messages as sentences: the operator, the actual value, the expected one.
//   Every throw of the extension goes through `fail`; PyTorch turns it into a Python RuntimeError.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace warpwatch {

template <class... Parts>
[[noreturn]] void fail(const char* op, const Parts&... parts) {
  std::ostringstream text;
  text << op << ": ";
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

}  // namespace warpwatch

// The arguments are evaluated only if the condition fails, so a passing check costs one comparison.
#define WARPWATCH_CHECK(condition, op, ...)              \
  do {                                                   \
    if (!(condition)) ::warpwatch::fail(op, __VA_ARGS__); \
  } while (0)
