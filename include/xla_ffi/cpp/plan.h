// Parses shape contracts at compile time, so that calls only compare sizes. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_PLAN_H_
#define XLA_FFI_SDK_CPP_PLAN_H_

#include "xla_ffi/cpp/contract.h"
#include "xla_ffi/cpp/name.h"
#include "xla_ffi/frame.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The entry of a contract for one operand.
struct PlannedEntry {
  bool is_arg = true;
  int index = 0;       // index of the operand among the arguments or the results
  int words = 0;       // number of dimensions, without an ellipsis
  bool token = false;  // whether the entry is `token`, for an operand of any shape
  int ellipsis = -1;   // number of dimensions before the ellipsis, or -1
};

// A dimension of a contract that is a name or a number.
struct PlannedDim {
  int entry = 0;
  int place = 0;  // index of the dimension; after an ellipsis, counted from the end (-1 is the last)
  int64_t size = -1;
  std::string_view name;
  int same = -1;  // index of the first dimension with the same name, or -1
};

// A parsed contract. A contract only has a plan if all operands are required and all dimensions are names, numbers, `_`
// or `...`.
template <size_t kLength>
struct ShapePlan {
  bool is_plan = true;
  int entries = 0;
  int dims = 0;
  int ellipsis = -1;  // index of the first entry with an ellipsis, or -1
  PlannedEntry entry[kLength] = {};
  PlannedDim dim[kLength] = {};

  // Parses a contract. `kLength` is an upper bound for the number of entries and dimensions.
  constexpr explicit ShapePlan(std::string_view contract) {
    const size_t arrow = contract.find("->");
    is_plan = arrow != std::string_view::npos;
    if (!is_plan) return;  // a static_assert reports this mistake
    Side(contract.substr(0, arrow), true);
    Side(contract.substr(arrow + 2), false);
  }

  constexpr void Side(std::string_view side, bool is_arg) {
    int index = 0;
    for (bool more = !Trimmed(side).empty(); more; ++index) {
      const size_t comma = side.find(',');
      more = comma != std::string_view::npos;
      Entry(Trimmed(side.substr(0, comma)), is_arg, index);
      if (more) side.remove_prefix(comma + 1);
    }
  }

  constexpr void Entry(std::string_view text, bool is_arg, int index) {
    PlannedEntry& one = entry[entries++];
    one.is_arg = is_arg;
    one.index = index;
    one.token = text == "token";
    if (one.token || text == "()") return;
    const int first = dims;
    while (!text.empty()) {
      size_t length = 0;
      while (length < text.size() && !IsBlank(text[length])) ++length;
      const std::string_view word = text.substr(0, length);
      text.remove_prefix(length == 0 ? 1 : length);
      if (word == "...") {
        one.ellipsis = one.words;
        if (ellipsis < 0) ellipsis = entries - 1;
      } else if (!word.empty()) {
        Dim(word, one.words++);
      }
    }
    for (int d = first; one.ellipsis >= 0 && d < dims; ++d) {
      if (dim[d].place >= one.ellipsis) dim[d].place -= one.words;
    }
  }

  constexpr void Dim(std::string_view word, int place) {
    if (word == "_") return;
    PlannedDim& one = dim[dims];
    one.entry = entries - 1;
    one.place = place;
    if (IsDigit(word[0])) {
      ReadSizeOf(word, &one.size);
    } else {
      one.name = word;
      for (const char c : word) is_plan = is_plan && (IsLetter(c) || IsDigit(c));
      for (int d = 0; d < dims && one.same < 0; ++d) {
        if (dim[d].name == word) one.same = d;
      }
    }
    ++dims;
  }

  // Reads a word that must be a number; otherwise the contract has no plan.
  constexpr void ReadSizeOf(std::string_view word, int64_t* size) {
    *size = 0;
    for (const char c : word) {
      is_plan = is_plan && IsDigit(c);
      if (is_plan) *size = *size * 10 + (c - '0');
    }
  }
};

// Compares the operands of a call with a contract's plan.
template <typename Declared>
struct ShapeCheck {
  static constexpr std::string_view kText = Declared::Shape();
  static constexpr ShapePlan<kText.size() + 1> kPlan{kText};

  // Returns true if an attribute has the same name as a dimension of the contract. The dimension must then equal the
  // attribute's value, which a plan does not support.
  static constexpr bool Names(const BoundName* names, const bool* is_attr, int size) {
    for (int i = 0; i < size; ++i) {
      for (int d = 0; d < kPlan.dims; ++d) {
        if (is_attr[i] && kPlan.dim[d].name == names[i].text()) return true;
      }
    }
    return false;
  }

  // Returns true if the operands match the contract's plan. Otherwise, the caller checks the call by parsing the
  // contract again.
  XLA_FFI_SDK_HOT static bool Fits(const XLA_FFI_CallFrame* frame) {
    return Fits(frame, std::make_index_sequence<kPlan.entries>{},
                       std::make_index_sequence<kPlan.dims>{});
  }

 private:
  template <size_t... Es, size_t... Ds>
  XLA_FFI_SDK_HOT static bool Fits(const XLA_FFI_CallFrame* frame, std::index_sequence<Es...>,
                                   std::index_sequence<Ds...>) {
    return (EntryFits<Es>(frame) && ...) && (DimFits<Ds>(frame) && ...);
  }

  template <size_t e>
  XLA_FFI_SDK_HOT static const XLA_FFI_Buffer* Buffer(const XLA_FFI_CallFrame* frame) {
    return static_cast<const XLA_FFI_Buffer*>(kPlan.entry[e].is_arg
                                                  ? frame->args.args[kPlan.entry[e].index]
                                                  : frame->rets.rets[kPlan.entry[e].index]);
  }

  template <size_t e>
  XLA_FFI_SDK_HOT static bool EntryFits(const XLA_FFI_CallFrame* frame) {
    constexpr PlannedEntry kEntry = kPlan.entry[e];
    if constexpr (kEntry.token) {
      return true;
    } else {
      const XLA_FFI_Buffer* buf = Buffer<e>(frame);
      if constexpr (kEntry.ellipsis < 0) {
        return buf->rank == kEntry.words;
      } else {
        if (buf->rank < kEntry.words) return false;
        if constexpr (static_cast<int>(e) == kPlan.ellipsis) {
          return true;
        } else {
          constexpr PlannedEntry kFirst = kPlan.entry[kPlan.ellipsis];
          const XLA_FFI_Buffer* first = Buffer<kPlan.ellipsis>(frame);
          const int64_t span = buf->rank - kEntry.words;
          if (first->rank - kFirst.words != span) return false;
          for (int64_t i = 0; i < span; ++i) {
            if (buf->dims[kEntry.ellipsis + i] != first->dims[kFirst.ellipsis + i]) return false;
          }
          return true;
        }
      }
    }
  }

  template <size_t d>
  XLA_FFI_SDK_HOT static int64_t Size(const XLA_FFI_CallFrame* frame) {
    constexpr PlannedDim kDim = kPlan.dim[d];
    const XLA_FFI_Buffer* buf = Buffer<kDim.entry>(frame);
    return buf->dims[kDim.place < 0 ? buf->rank + kDim.place : kDim.place];
  }

  template <size_t d>
  XLA_FFI_SDK_HOT static bool DimFits(const XLA_FFI_CallFrame* frame) {
    constexpr PlannedDim kDim = kPlan.dim[d];
    if constexpr (kDim.size >= 0) {
      return Size<d>(frame) == kDim.size;
    } else if constexpr (kDim.same >= 0) {
      return Size<d>(frame) == Size<kDim.same>(frame);
    } else {
      return true;
    }
  }
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_PLAN_H_
