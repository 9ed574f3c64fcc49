// Functions that create layouts.
#ifndef XLA_LAYOUT_UTIL_H_
#define XLA_LAYOUT_UTIL_H_

#include <utility>
#include <vector>

#include "xla/shape.h"

namespace xla {

struct LayoutUtil {
  static Layout MakeLayout(std::vector<int64_t> minor_to_major) {
    return Layout(std::move(minor_to_major));
  }
  static Layout MakeDescendingLayout(int64_t rank) {
    return Shape(PRED, std::vector<int64_t>(static_cast<size_t>(rank), 1)).layout();
  }
  static Layout MakeAscendingLayout(int64_t rank) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < rank; ++i) order.push_back(i);
    return Layout(std::move(order));
  }
};

}  // namespace xla

#endif  // XLA_LAYOUT_UTIL_H_
