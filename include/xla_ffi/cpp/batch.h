// What an author says of batches, against what the handler takes (docs/manifest.md). Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_BATCH_H_
#define XLA_FFI_SDK_CPP_BATCH_H_

#include <cstdint>
#include <string_view>

#include "xla_ffi/cpp/contract.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Not for constant expressions: where one comes here, the compiler tells of it by the function's name.
inline void Batch_is_leading_or_sequential_or_none() {}
inline void Batch_is_leading_or_shared_for_each_argument() {}
inline void Batch_has_a_leading_dimension_that_an_entry_of_the_shape_does_not_take() {}
inline void Batch_shares_an_operand_whose_entry_of_the_shape_has_dots() {}
inline void Batch_has_a_leading_dimension_that_an_operand_of_one_rank_does_not_take() {}

// `leading`, `sequential` or `none` of a handler, or `leading` or `shared` of each of its arguments.
class BatchRule {
 public:
  constexpr BatchRule(std::string_view how, const std::string_view* each, int count)
      : how_(how), each_(each), count_(count) {
    if (!how.empty() && how != "leading" && how != "sequential" && how != "none") Batch_is_leading_or_sequential_or_none();
    for (int i = 0; i < count; ++i) {
      if (each[i] != "leading" && each[i] != "shared") Batch_is_leading_or_shared_for_each_argument();
    }
  }

  // All arguments, then all results, in their order; `rank` is negative where any does. A token has no dimensions.
  constexpr void Argument(bool is_token, int64_t rank) {
    const bool leads = Leads(arguments_++) && !is_token;
    some_lead_ = some_lead_ || leads;
    has_rank_ = has_rank_ || (leads && rank >= 0);
  }
  constexpr void Result(bool is_token, int64_t rank) {
    has_rank_ = has_rank_ || (some_lead_ && !is_token && rank >= 0);
  }

  // Judges what was told; `shape` is the contract, or empty.
  constexpr void Check(std::string_view shape) const {
    if (count_ > 0 && count_ != arguments_) Batch_is_leading_or_shared_for_each_argument();
    if (has_rank_) Batch_has_a_leading_dimension_that_an_operand_of_one_rank_does_not_take();
    const size_t arrow = shape.find("->");
    if (arrow == std::string_view::npos || (count_ == 0 && how_ != "leading")) return;
    CheckSide(shape.substr(0, arrow), true);
    CheckSide(shape.substr(arrow + 2), false);
  }

 private:
  constexpr bool Leads(int argument) const {
    return count_ > 0 ? argument < count_ && each_[argument] == "leading" : how_ == "leading";
  }
  constexpr void CheckSide(std::string_view side, bool is_argument) const {
    int index = 0;
    for (bool more = !Trimmed(side).empty(); more; ++index) {
      std::string_view entry = TakeEntry(&side, &more);
      TakeMark('*', &entry);
      TakeMark('?', &entry);
      if (entry == "token") continue;
      if (!is_argument || Leads(index)) {
        if (entry.substr(0, 3) != "...") Batch_has_a_leading_dimension_that_an_entry_of_the_shape_does_not_take();
      } else if (some_lead_ && entry.find("...") != std::string_view::npos) {
        Batch_shares_an_operand_whose_entry_of_the_shape_has_dots();
      }
    }
  }

  std::string_view how_;
  const std::string_view* each_;
  int count_, arguments_ = 0;
  bool some_lead_ = false, has_rank_ = false;
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_BATCH_H_
