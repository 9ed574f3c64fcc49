// Numbers that the function's parameters do not hold, whatever is bound and whatever is called. See operands.cc for how
// the cases are written; what must not compile is in tests/refused_builds.rs.
#include "common.h"

enum Loose : int32_t { kNone = 0, kMany = 300 };
enum class Far : uint64_t { kFirst = 1, kLast = 5 };
enum Free { kOne = 1, kTwo = 2 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Loose);
#if OURS
XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(Far, Far::kFirst, Far::kLast);
XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(Free, kOne, kTwo);
struct Ticks {};
template <>
struct xla::ffi::AttrDecoding<Ticks> {
  using Type = int64_t;
  static std::optional<int64_t> Decode(XLA_FFI_AttrType type, void* attr, DiagnosticEngine& diagnostic) {
    return AttrDecoding<int64_t>::Decode(type, attr, diagnostic);
  }
};

using Y = ffi::ResultBufferR1<ffi::S64>;
using Floats = ffi::ResultBufferR1<ffi::F32>;

// A function object with a default argument, and one that is called by reference
// RUN-OURS by_default {n = 127 : i32} -> s64[1] == 130
// RUN-OURS by_default {n = 300 : i32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 300
struct ByDefault {
  ffi::Error operator()(Y y, int8_t n, int more = 3) const {
    Put(y, {n + more});
    return ffi::Error::Success();
  }
};
XLA_FFI_DEFINE_HANDLER_SYMBOL(by_default, ByDefault{},
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("n"));
// RUN-OURS by_reference {n = -128 : i32} -> s64[1] == -128
// RUN-OURS by_reference {n = -129 : i32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got -129
struct ByReference {
  ffi::Error operator()(Y y, int8_t n) const& noexcept {
    Put(y, {n});
    return ffi::Error::Success();
  }
};
XLA_FFI_DEFINE_HANDLER_SYMBOL(by_reference, ByReference{},
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("n"));
// RUN-OURS by_wrapper {n = 127 : i32} -> s64[1] == 127
// RUN-OURS by_wrapper {n = 300 : i32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 300
static ffi::Error Wrapped(Y y, int8_t n) {
  Put(y, {n});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(by_wrapper, std::ref(Wrapped),
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("n"));

// An enum without a scope, what a decoding of the user's gives, what the context gives, an attribute with its name
static ffi::Error Small(Y y, std::optional<int8_t> n) {
  Put(y, {n.value_or(-1)});
  return ffi::Error::Success();
}
// RUN-OURS small_enum {n = 100 : i32} -> s64[1] == 100
// RUN-OURS small_enum {n = 300 : i32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 300
XLA_FFI_DEFINE_HANDLER_SYMBOL(small_enum, Small, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Loose>("n"));
// RUN-OURS small_ticks {n = 100 : i64} -> s64[1] == 100
// RUN-OURS small_ticks {n = 1000 : i64} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 1000
XLA_FFI_DEFINE_HANDLER_SYMBOL(small_ticks, Small, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Ticks>("n"));
// RUN-OURS small_ticks_if {} -> s64[1] == -1
// RUN-OURS small_ticks_if {n = 1000 : i64} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 1000
XLA_FFI_DEFINE_HANDLER_SYMBOL(small_ticks_if, Small,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<std::optional<Ticks>>("n"));
// RUN-OURS small_ordinal from=r5 ordinal=7 {} -> s64[1] == 7
// RUN-OURS small_ordinal from=r5 ordinal=300 {} -> s64[1] !! INVALID_ARGUMENT the function takes an integer of 8 bits, got 300
XLA_FFI_DEFINE_HANDLER_SYMBOL(small_ordinal, Small,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Ctx<ffi::DeviceOrdinal>());
constexpr char kName[] = "n";
static ffi::Error Named(Y y, ffi::Attr<int8_t, kName> n) {
  Put(y, {*n});
  return ffi::Error::Success();
}
// RUN-OURS small_named {n = 100 : i32} -> s64[1] == 100
// RUN-OURS small_named {n = 300 : i32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': the function takes an integer of 8 bits, got 300
XLA_FFI_DEFINE_HANDLER_SYMBOL(small_named, Named, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("n"));

// Floating-point numbers are rounded, not to infinity; integers are exact
// RUN-OURS rounded {d = 0.1 : f64, n = 16777216 : i64, m = -2147483648 : i32} -> f32[3] == 0.10000000149011612,16777216,-2147483648
// RUN-OURS rounded {d = 16777217.0 : f64, n = -16777216 : i64, m = 0 : i32} -> f32[3] == 16777216,-16777216,0
// RUN-OURS rounded {d = 3.4028235677973366e38 : f64, n = 0 : i64, m = 0 : i32} -> f32[3] !! INVALID_ARGUMENT attribute 'd': the function takes a floating-point number of 32 bits, got 3.4028235677973366e+38
// RUN-OURS rounded {d = -1.0e300 : f64, n = 0 : i64, m = 0 : i32} -> f32[3] !! INVALID_ARGUMENT attribute 'd': the function takes a floating-point number of 32 bits, got -1e+300
// RUN-OURS rounded {d = 0.0 : f64, n = 16777217 : i64, m = 0 : i32} -> f32[3] !! INVALID_ARGUMENT attribute 'n': the function takes a floating-point number of 32 bits, got 16777217
// RUN-OURS rounded {d = 0.0 : f64, n = 9223372036854775807 : i64, m = 0 : i32} -> f32[3] !! INVALID_ARGUMENT attribute 'n': the function takes a floating-point number of 32 bits, got 9223372036854775807
// RUN-OURS rounded {d = 0.0 : f64, n = 0 : i64, m = 2147483647 : i32} -> f32[3] !! INVALID_ARGUMENT attribute 'm': the function takes a floating-point number of 32 bits, got 2147483647
static ffi::Error Rounded(Floats y, float d, const float& n, std::optional<float> m) {
  const float values[] = {d, n, m.value_or(-1)};
  std::copy(std::begin(values), std::end(values), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(rounded, Rounded,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F32>>()
                                  .Attr<double>("d")
                                  .Attr<int64_t>("n")
                                  .Attr<int32_t>("m"));

// The largest numbers without a sign, in words
// RUN-OURS far_enum {n = 5 : ui64, m = 1 : ui64} -> s64[2] == 5,1
// RUN-OURS far_enum {n = 18446744073709551615 : ui64, m = 1 : ui64} -> s64[2] !! INVALID_ARGUMENT attribute 'n': expected a value from 1 to 5, got 18446744073709551615
// RUN-OURS far_enum {n = 1 : ui64, m = 18446744073709551615 : ui64} -> s64[2] !! INVALID_ARGUMENT attribute 'm': the function takes an integer of 64 bits, got 18446744073709551615
static ffi::Error FarEnum(Y y, Far n, int64_t m) {
  Put(y, {static_cast<int64_t>(n), m});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(far_enum, FarEnum,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Far>("n").Attr<uint64_t>("m"));
// An enum whose type nobody gave has the bits of its values alone
// RUN-OURS free_enum {n = 2 : ui32} -> s64[1] == 2
// RUN-OURS free_enum {n = 77 : ui32} -> s64[1] !! INVALID_ARGUMENT attribute 'n': expected a value from 1 to 2, got 77
static ffi::Error FreeEnum(Y y, Free n) {
  Put(y, {static_cast<int64_t>(n)});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(free_enum, FreeEnum, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Free>("n"));

// Fields behind the last member are as the struct has them
// RUN-OURS fewer {s = {a = 7 : i32}} -> s64[2] == 7,5
struct Fewer {
  int32_t a;
  int32_t b = 5;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Fewer, xla::ffi::StructMember<int32_t>("a"));
static ffi::Error FewerFields(Y y, Fewer s) {
  Put(y, {s.a, s.b});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fewer, FewerFields, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Fewer>("s"));
#endif
