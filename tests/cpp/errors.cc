// Tests of error values, and of exceptions from user-defined decoders, constructors and destructors. See operands.cc
// for the RUN lines.
#include "common.h"

#include <functional>

// A moved-from error is still an error: a function that logs an error and then returns the error has failed.
static ffi::Error Failed(bool is_long) {
  return is_long ? ffi::Error(ffi::ErrorCode::kDataLoss, std::string(100, 'x'))
                 : ffi::Error(ffi::ErrorCode::kDataLoss, "launch failed");
}
// RUN moved_into {} -> ==
SELF_TEST(moved_into) {
  for (const bool is_long : {false, true}) {
    ffi::Error e = Failed(is_long), f = std::move(e), g = ffi::Error::Success();
    g = std::move(f);
    EXPECT(e.failure() && f.failure() && g.failure());
    EXPECT(e.errc() == ffi::ErrorCode::kDataLoss && f.errc() == g.errc() && g.message() == Failed(is_long).message());
    e = std::move(g);
    EXPECT(e.message() == Failed(is_long).message() && g.failure());
    ffi::Error& same = e;
    e = std::move(same);
    EXPECT(e.failure());
    ffi::ErrorOr<int> a = Failed(is_long), b = std::move(a);
    EXPECT(a.has_error() && a.error().failure() && b.error().failure());
    ffi::Error taken = std::move(b).error();
    EXPECT(taken.failure() && b.has_error() && b.error().failure());
    ffi::Expected<int, ffi::Error> c = ffi::Unexpected<ffi::Error>(taken), d = std::move(c);
    EXPECT(c.has_error() && c.error().failure() && d.error().failure());
    std::vector<ffi::Error> kept;
    kept.push_back(std::move(taken));
    EXPECT(taken.failure() && kept[0].message() == Failed(is_long).message());
    taken = ffi::Error::Success();
    EXPECT(taken.success() && taken.message().empty());
  }
  return ffi::Error::Success();
}

// A handler that is an empty std::function fails with bad_function_call
// RUN-OURS empty_function {} -> !! INTERNAL bad_function_call
static std::function<ffi::Error()> empty_std_function;
XLA_FFI_DEFINE_HANDLER_SYMBOL(empty_function, empty_std_function, ffi::Ffi::Bind());

#if OURS
// Throws a value that depends on the attribute.
static void Throw(int64_t what) {
  if (what == 1) throw std::invalid_argument("thrown here");
  if (what == 2) throw std::string("thrown here");
  if (what == 3) throw 3;
}

// A user-defined decoder that throws
struct Hex {
  int64_t n;
};
template <>
struct xla::ffi::AttrDecoding<Hex> {
  using Type = Hex;
  static std::optional<Hex> Decode(XLA_FFI_AttrType type, void* attr, DiagnosticEngine& diagnostic) {
    auto n = AttrDecoding<int64_t>::Decode(type, attr, diagnostic);
    if (!n.has_value()) return std::nullopt;
    Throw(*n);
    return Hex{*n};
  }
};
// RUN-OURS thrown_decoder {h = 0 : i64} -> s64[1] == 0
// RUN-OURS thrown_decoder {h = 1 : i64} -> s64[1] !! INTERNAL thrown_decoder (execute): C++ exception: thrown here
// RUN-OURS thrown_decoder {h = 2 : i64} -> s64[1] !! INTERNAL thrown_decoder (execute): C++ exception: thrown here
// RUN-OURS thrown_decoder {h = 3 : i64} -> s64[1] !! INTERNAL thrown_decoder (execute): C++ exception: of a type that is not std::exception
static ffi::Error ThrownDecoder(Hex h, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {h.n});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_decoder, ThrownDecoder,
                              ffi::Ffi::Bind().Attr<Hex>("h").Ret<ffi::BufferR1<ffi::S64>>());

// An exception from a decoder replaces the problem of a different attribute
// RUN-OURS thrown_beside {h = 2 : i64, n = 0.5 : f32} -> s64[1] !! INTERNAL thrown_beside (execute): C++ exception: thrown here
static ffi::Error ThrownBeside(int64_t, Hex h, ffi::ResultBufferR1<ffi::S64> y) { return ThrownDecoder(h, y); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_beside, ThrownBeside,
                              ffi::Ffi::Bind().Attr<int64_t>("n").Attr<Hex>("h").Ret<ffi::BufferR1<ffi::S64>>());

// Decoders that throw within a dictionary, a variant and an optional attribute
// RUN-OURS thrown_optional {h = 1 : i64} -> s64[1] !! INTERNAL thrown_optional (execute): C++ exception: thrown here
// RUN-OURS thrown_optional {} -> s64[1] == -1
static ffi::Error ThrownOptional(std::optional<Hex> h, ffi::ResultBufferR1<ffi::S64> y) {
  return ThrownDecoder(h.value_or(Hex{-1}), y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_optional, ThrownOptional,
                              ffi::Ffi::Bind().Attr<std::optional<Hex>>("h").Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS thrown_in_dictionary {h = 1 : i64} -> s64[1] !! INTERNAL thrown_in_dictionary (execute): C++ exception: thrown here
static ffi::Error ThrownInDictionary(ffi::Dictionary d, ffi::ResultBufferR1<ffi::S64> y) {
  auto h = d.get<Hex>("h");
  return h.has_error() ? h.error() : ThrownDecoder(*h, y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_in_dictionary, ThrownInDictionary,
                              ffi::Ffi::Bind().Attrs().Ret<ffi::BufferR1<ffi::S64>>());

// Constructors that throw: of a struct whose fields are read in place, and of a struct whose fields are decoded first
struct Ordered {
  Ordered(int64_t l, int64_t h) : lo(l), hi(h) {
    if (hi < lo) Throw(1);
  }
  int64_t lo, hi;
};
struct Named {
  Named(std::string s, std::optional<int64_t> h) : text(std::move(s)), hi(h.value_or(0)) { Throw(hi); }
  std::string text;
  int64_t hi;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Ordered, xla::ffi::StructMember<int64_t>("lo"), xla::ffi::StructMember<int64_t>("hi"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Named, xla::ffi::StructMember<std::string>("text"),
                                      xla::ffi::StructMember<std::optional<int64_t>>("hi"));
// RUN-OURS thrown_ordered {hi = 1 : i64, lo = 2 : i64} -> s64[1] !! INTERNAL thrown_ordered (execute): C++ exception: thrown here
static ffi::Error ThrownOrdered(Ordered r, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {r.hi - r.lo});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_ordered, ThrownOrdered,
                              ffi::Ffi::Bind().Attrs<Ordered>().Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS thrown_named {r = {hi = 0 : i64, text = "a"}} -> s64[1] == 1
// RUN-OURS thrown_named {r = {hi = 2 : i64, text = "a"}} -> s64[1] !! INTERNAL thrown_named (execute): C++ exception: thrown here
static ffi::Error ThrownNamed(const Named& r, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(r.text.size())});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_named, ThrownNamed,
                              ffi::Ffi::Bind().Attr<Named>("r").Ret<ffi::BufferR1<ffi::S64>>());

// User-defined decoders of operands and of context values that throw
struct Odd {};
struct Thrower {};
template <>
struct xla::ffi::ArgDecoding<Odd> {
  static std::optional<Odd> Decode(XLA_FFI_ArgType, void*, DiagnosticEngine&) {
    Throw(2);
    return Odd{};
  }
};
template <>
struct xla::ffi::CtxDecoding<Thrower> {
  using Type = int64_t;
  static std::optional<int64_t> Decode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*, DiagnosticEngine&) {
    Throw(3);
    return 0;
  }
};
// RUN-OURS thrown_argument {} f32[1]=1 -> !! INTERNAL thrown_argument (execute): C++ exception: thrown here
static ffi::Error ThrownArgument(Odd) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_argument, ThrownArgument, ffi::Ffi::Bind().Arg<Odd>());
// RUN-OURS thrown_context {} -> !! INTERNAL thrown_context (execute): C++ exception: of a type that is not std::exception
static ffi::Error ThrownContext(int64_t) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(thrown_context, ThrownContext, ffi::Ffi::Bind().Ctx<Thrower>());

#endif
