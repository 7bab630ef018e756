// Errors as sentences: the operator, what came, what is wanted.
//   Every throw of the extension goes through `fail`; PyTorch hands it to Python as a RuntimeError.
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

// The parts are evaluated only when the condition fails, so a check costs one comparison.
#define WARPWATCH_CHECK(condition, op, ...)              \
  do {                                                   \
    if (!(condition)) ::warpwatch::fail(op, __VA_ARGS__); \
  } while (0)
