// What the C++ headers find out of operands by numbers that are looked at once, and by an order in which they lay before, is
// what they find out of them one by one. See cpp_regions.rs.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "xla/ffi/api/ffi.h"

enum class Level : int32_t { kLow, kHigh };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Level);

// One whose author says how it is decoded: from a string.
enum class Manner : int32_t { kFast, kExact };
template <>
struct xla::ffi::AttrDecoding<Manner> {
  using Type = Manner;
  static std::optional<Manner> Decode(XLA_FFI_AttrType type, void* attr, xla::ffi::DiagnosticEngine& diagnostic) {
    const auto text = AttrDecoding<std::string_view>::Decode(type, attr, diagnostic);
    if (!text.has_value()) return std::nullopt;
    return *text == "exact" ? Manner::kExact : Manner::kFast;
  }
};

namespace {

using namespace xla::ffi::internal;  // NOLINT: what is tested

int failures = 0;
void Check(bool good, const char* what, uint64_t number) {
  if (good || ++failures > 10) return;
  std::printf("%s: %" PRIu64 "\n", what, number);
}

uint64_t state = 1;
uint64_t Below(uint64_t end) {
  state = state * 0x5851f42d4c957f2d + 1;
  return (state >> 33) % end;
}

constexpr int kArgs = 3, kRets = 5, kCount = kArgs + kRets;

// A call whose operands are bytes that lie within a few hundred, some of them nowhere, some where another one lies.
struct Call {
  XLA_FFI_Buffer buffers[kCount] = {};
  int64_t dims[kCount] = {};
  XLA_FFI_ArgType arg_types[kArgs];
  XLA_FFI_RetType ret_types[kRets];
  void* operands[kCount];
  XLA_FFI_CallFrame frame = {};
  Regions<kArgs, kRets> regions;
  bool null = false;  // an operand with bytes lies at null

  Call() {
    for (int i = 0; i < kCount; ++i) {
      XLA_FFI_Buffer& one = buffers[i];
      const bool again = i > 0 && Below(12) == 0;
      const XLA_FFI_Buffer& other = buffers[again ? Below(static_cast<uint64_t>(i)) : 0];
      dims[i] = again ? *other.dims : static_cast<int64_t>(Below(10));
      one.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      one.dtype = XLA_FFI_DataType_U8;
      one.data = again ? other.data : reinterpret_cast<void*>(1 + Below(400));
      one.rank = 1;
      one.dims = &dims[i];
      operands[i] = &one;
      const auto start = reinterpret_cast<uintptr_t>(one.data);
      regions.Set(i, start, start + static_cast<uintptr_t>(dims[i]));
      if (Below(16) == 0) {
        dims[i] = 0;
        regions.SetNowhere(i);
      }
      // Without bytes it may lie at null, too; with some it may not.
      if (Below(32) == 0) {
        dims[i] = Below(8) == 0 ? 3 : 0;
        null = null || dims[i] > 0;
        one.data = nullptr;
        regions.Set(i, 0, static_cast<Address>(dims[i]));
      }
      if (i < kArgs) {
        arg_types[i] = XLA_FFI_ArgType_BUFFER;
      } else {
        ret_types[i - kArgs] = XLA_FFI_RetType_BUFFER;
      }
    }
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, kArgs, arg_types, operands};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, kRets, ret_types, operands + kArgs};
  }

  bool Share(int a, int b) const {
    return dims[a] > 0 && dims[b] > 0 && regions.start[a] < regions.end[b] && regions.start[b] < regions.end[a];
  }
};

void Orders() {
  uint64_t last = kDeclared, found[2] = {}, proven = 0, coincident = 0;
  for (uint64_t n = 0; n < 20000; ++n) {
    const Call call;
    bool clash = false, any = false, empty = false;
    for (int i = 0; i < kCount; ++i) {
      empty = empty || call.dims[i] == 0;
      for (int k = 0; k < i; ++k) {
        if (!call.Share(i, k)) continue;
        any = true;
        if (i < kArgs) continue;
        const bool meant = k < kArgs && call.buffers[i].data == call.buffers[k].data && call.dims[i] == call.dims[k];
        coincident += meant;
        clash = clash || !meant;
      }
    }
    const auto& regions = call.regions;
    const uint64_t order = Sorted(&call.frame, regions.start, regions.end, kArgs, kRets);
    Check((order == 0) == (clash || call.null), "sorted", n);
    Check((xla_ffi_sdk_memory_is_good(&call.frame, kArgs, kRets, 1) == 0) == (clash || call.null), "one by one", n);
    // Whatever was true of another call, an order proves nothing that is not so.
    Check(!regions.AreApartIn(last) || !(any || call.null), "proven by the last order", n);
    Check(!regions.AreApart() || !clash, "apart", n);
    int by_start[kCount];
    for (int i = 0; i < kCount; ++i) by_start[i] = i;
    std::stable_sort(by_start, by_start + kCount, [&](int a, int b) { return regions.start[a] < regions.start[b]; });
    uint64_t true_order = 0;
    for (int i = 0; i < kCount; ++i) true_order |= static_cast<uint64_t>(by_start[i]) << 4 * i;
    Check(order == 0 || order == true_order, "another order", n);
    Check(regions.AreApartIn(true_order) ? !any && !call.null : any || empty || call.null, "proven by the true order", n);
    ++found[clash];
    if (clash || call.null) continue;
    proven += regions.AreApartIn(order);
    last = order;
  }
  Check(found[0] > 1000, "calls without a clash", found[0]);
  Check(found[1] > 1000, "calls with a clash", found[1]);
  Check(proven > 1000, "proven", proven);
  Check(coincident > 1000, "arguments that are results", coincident);
}

// How many operands are doubted together, and whether an order is asked for.
struct Mode {
  int operands;
  bool ordered;
};
constexpr Mode kModes[] = {{1, false}, {8, false}, {8, true}};

// Whether no doubt is left; then all that the long way finds has to be the same.
template <int rank>
bool IsSureIn(Mode mode, const int64_t* dims, uint64_t data, unsigned dtype) {
  XLA_FFI_Buffer buffer = {};
  buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  buffer.dtype = static_cast<XLA_FFI_DataType>(dtype);
  buffer.data = reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  buffer.rank = rank;
  buffer.dims = const_cast<int64_t*>(dims);
  Doubt doubt(mode.operands, mode.ordered);
  Regions<1, 0> regions;
  const bool located = regions.Locate(0, &buffer, dtype, rank, &doubt);
  if (!located || !doubt.IsNone() || (mode.ordered && !regions.AreApartIn(0))) return false;
  xla_ffi_sdk_region region;
  const auto fault = xla_ffi_sdk_locate_any(&buffer, dtype, rank, &region);
  Check(fault == xla_ffi_sdk_fault_none, "sure of what cannot be used, at", data);
  if (region.start != region.end) {
    Check(region.start == regions.start[0] && region.end == regions.end[0], "another place than", data);
  }
  return true;
}

template <int rank>
int IsSure(const int64_t* dims, uint64_t data, unsigned dtype) {
  int sure = 0;
  for (const Mode mode : kModes) sure += IsSureIn<rank>(mode, dims, data, dtype);
  return sure;
}

// Where the longest rows have 2^30 elements, an order asks for the long way.
constexpr int kAll = 3, kButOrdered = 2;

// What is doubted is so for all that are doubted together.
void Together() {
  constexpr uint64_t kPlaces[] = {0x7f00, 0x7f10, 0, 0x7f01, 0x7f02, 0x7f04, 0x7f08, 0x80};
  constexpr unsigned kTypes[] = {XLA_FFI_DataType_U8, XLA_FFI_DataType_F16, XLA_FFI_DataType_F32, XLA_FFI_DataType_F64};
  uint64_t sure = 0, seen = 0;
  for (const uint64_t a : kPlaces) {
    for (const uint64_t b : kPlaces) {
      for (const unsigned dtype : kTypes) {
        for (const unsigned other : kTypes) {
          const int64_t dims[] = {2, 3};
          Doubt doubt(8, false);
          const unsigned wide = xla_ffi_sdk_bits(dtype), narrow = xla_ffi_sdk_bits(other);
          doubt.Count(dims, 2, a, xla_ffi_sdk_align(dtype, wide));
          doubt.Count(dims, 2, b, xla_ffi_sdk_align(other, narrow));
          const bool good = xla_ffi_sdk_is_address(a, xla_ffi_sdk_align(dtype, wide)) &&
                            xla_ffi_sdk_is_address(b, xla_ffi_sdk_align(other, narrow));
          Check(!doubt.IsNone() || good, "sure of two", a << 16 | b);
          sure += doubt.IsNone();
          ++seen;
        }
      }
    }
  }
  Check(sure > seen / 8 && sure < seen / 2, "sure of two addresses", sure);
}

void Doubts() {
  constexpr unsigned kTypes[] = {XLA_FFI_DataType_U8, XLA_FFI_DataType_F16, XLA_FFI_DataType_F32,
                                 XLA_FFI_DataType_F64, XLA_FFI_DataType_C64, XLA_FFI_DataType_C128};
  constexpr int64_t kSizes[] = {-1,        0,
                                1,         2,
                                3,         7,
                                1 << 20,   1 << 28,
                                (int64_t{1} << 31) - 1, int64_t{1} << 31,
                                int64_t{1} << 40,       int64_t{1} << 57,
                                int64_t{1} << 58,       std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};
  uint64_t sure = 0;
  for (const unsigned dtype : kTypes) {
    for (uint64_t offset = 0; offset < 64; ++offset) {
      const int64_t four = 4;
      sure += IsSure<1>(&four, offset, dtype);
      sure += IsSure<1>(&four, (uint64_t{1} << 47) + offset, dtype);
      sure += IsSure<1>(&four, ~uint64_t{0} - offset, dtype);
    }
    sure += IsSure<0>(nullptr, 64, dtype);
    Check(IsSure<1>(nullptr, 64, dtype) == 0, "sure of no dimensions", dtype);
    for (const int64_t a : kSizes) {
      for (const int64_t b : kSizes) {
        for (const int64_t c : kSizes) {
          const int64_t dims[] = {a, b, c, a};
          sure += IsSure<1>(dims, 64, dtype) + IsSure<2>(dims, 64, dtype) + IsSure<3>(dims, 64, dtype) +
                  IsSure<4>(dims, 64, dtype);
        }
      }
    }
    // What is common is not doubted.
    const int64_t image[] = {8, 3, 224, 224}, rows[] = {int64_t{1} << 30, 4}, empty[] = {0, 4};
    Check(IsSure<4>(image, 64, dtype) == kAll && IsSure<2>(rows, 64, dtype) == kButOrdered &&
              IsSure<2>(empty, 64, dtype) == kAll,
          "doubted", dtype);
  }
  Check(sure > 30000, "sure", sure);
}

}  // namespace

namespace {

// An in-out operand is one array: of one element type and shape, each of which is there.
void InOutOperands() {
  float data[4];
  int64_t four = 4, zero = 0;
  const XLA_FFI_Buffer whole = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, XLA_FFI_DataType_F32, data, 1, &four};
  XLA_FFI_CallFrame frame = {};
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  Check(IsOneArray(&frame, &whole, &whole), "an array is itself", 0);
  XLA_FFI_Buffer nowhere = whole, other = whole, empty = whole;
  nowhere.dims = nullptr;
  other.dtype = XLA_FFI_DataType_S32;
  empty.dims = &zero;
  for (const XLA_FFI_Buffer& one : {nowhere, other, empty}) {
    Check(!IsOneArray(&frame, &whole, &one), "another array as the result", one.dtype);
    Check(!IsOneArray(&frame, &one, &whole), "another array as the argument", one.dtype);
  }
  Check(!IsOneArray(&frame, &nowhere, &nowhere), "dimensions that are nowhere", 0);
  Check(!xla_ffi_sdk_alike(&nowhere, &nowhere) && !xla_ffi_sdk_alike(&whole, &nowhere), "what is nowhere is like nothing", 0);
  XLA_FFI_Buffer of_bits = empty;
  of_bits.dtype = XLA_FFI_DataType_S32;
  Check(!IsOneArray(&frame, &empty, &of_bits), "empty ones of two types", 0);
  frame.stage = XLA_FFI_ExecutionStage_PREPARE;
  Check(!IsOneArray(&frame, &whole, &other), "two types in a stage without memory", 0);
}

// A size is asked of no attribute that has no value.
void SizesOfAttributes() {
  const XLA_FFI_ByteSpan name = {"n", 1};
  const XLA_FFI_ByteSpan* names[] = {&name};
  int32_t value = 7;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_S32, &value};
  XLA_FFI_AttrType types[] = {XLA_FFI_AttrType_SCALAR};
  void* attrs[] = {&scalar};
  XLA_FFI_CallFrame frame = {};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, types, const_cast<XLA_FFI_ByteSpan**>(names), attrs};
  int64_t got = 0;
  Check(xla_ffi_sdk_integer_attr(&frame, "n", 1, &got) && got == 7, "an attribute's size", 0);
  scalar.value = nullptr;
  Check(!xla_ffi_sdk_integer_attr(&frame, "n", 1, &got), "an attribute without a value", 0);
}

// One name more than a contract may have is no name that everything fits.
void NamesOfContracts() {
  const char* contract =
      "a b c d e f g h i j k l m n o p q r s t u v w x y z, A, A -> ";
  Check(ShapeProblem(contract, 3, 0, false, 0, 0, false) == ShapeFault::kText, "27 names", 0);
  contract = "a b c d e f g h i j k l m n o p q r s t u v w x y z, 2*a/3+1, _ -> token, token ? , a";
  Check(HasFewNames(contract), "26 names", 0);
  contract = "a b c d e f g h i j k l m n o p q r s t u v w x y z, _ token -> ";
  Check(!HasFewNames(contract), "a size that is called token", 0);
  xla_ffi_sdk_shapes shapes = {};
  XLA_FFI_CallFrame frame = {};
  shapes.frame = &frame;
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";  // the shapes point to it
  for (const char& name : letters) {
    Check(xla_ffi_sdk_name_fits(&shapes, &name, 1, 2), "a name", static_cast<uint64_t>(name));
  }
  Check(!xla_ffi_sdk_name_fits(&shapes, "A", 1, 2), "the 27th name", 0);
}

// An enumeration is described as what its decoder takes.
void Enumerations() {
  Check(AttrAbout<Level>::Type() == std::string("i32"), "an enumeration of numbers", 0);
  Check(AttrAbout<Manner>::Type() == std::string("any"), "an enumeration that its author decodes", 0);
}

}  // namespace

int main() {
  InOutOperands();
  SizesOfAttributes();
  NamesOfContracts();
  Enumerations();
  Orders();
  Doubts();
  Together();
  return failures == 0 ? 0 : 1;
}
