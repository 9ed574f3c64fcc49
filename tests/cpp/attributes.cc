// Tests of attributes. Comments name the corresponding upstream tests. See operands.cc for the RUN lines.
#include "common.h"

enum class Color : int32_t { kRed = 0, kGreen = 1 };
enum class Wide : int64_t { kOne = 1 };
struct Pair {
  int64_t a;
  float b;
};
struct Nested {
  Pair pair;
  std::string_view name;
};
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Color);
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Wide);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Pair, xla::ffi::StructMember<int64_t>("a"),
                                      xla::ffi::StructMember<float>("b"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Nested, xla::ffi::StructMember<Pair>("pair"),
                                      xla::ffi::StructMember<std::string_view>("name"));

// Scalar attributes of every type
// RUN scalars {b = true, i8 = -1 : i8, i16 = -2 : i16, i32 = -3 : i32, i64 = -4 : i64, u8 = 1 : ui8, u16 = 2 : ui16, u32 = 3 : ui32, u64 = 4 : ui64, f32 = 0.5 : f32, f64 = 0.25 : f64} -> f64[11] == 1,-1,-2,-3,-4,1,2,3,4,0.5,0.25
// RUN scalars {b = true} -> f64[11] !! INVALID_ARGUMENT missing attribute `i8`
static ffi::Error Scalars(ffi::ResultBufferR1<ffi::F64> y, bool b, int8_t i8, int16_t i16,
                          int32_t i32, int64_t i64, uint8_t u8, uint16_t u16, uint32_t u32,
                          uint64_t u64, float f32, double f64) {
  const double values[] = {b ? 1. : 0., double(i8),  double(i16), double(i32),
                           double(i64), double(u8),  double(u16), double(u32),
                           double(u64), double(f32), f64};
  std::copy(std::begin(values), std::end(values), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scalars, Scalars,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F64>>()
                                  .Attr<bool>("b")
                                  .Attr<int8_t>("i8")
                                  .Attr<int16_t>("i16")
                                  .Attr<int32_t>("i32")
                                  .Attr<int64_t>("i64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64"));

// Upstream's WrongNumAttrs; an attribute of a wrong type
// RUN one_attribute {eps = 1.0 : f32} -> f32[] == 1
// RUN one_attribute {eps = 1.0 : f64} -> f32[] !! INVALID_ARGUMENT attribute `eps`: expected F32, got F64
// RUN one_attribute {eps = "x"} -> f32[] !! INVALID_ARGUMENT attribute `eps`: expected F32, got a string
// RUN one_attribute {epsilon = 1.0 : f32} -> f32[] !! INVALID_ARGUMENT missing attribute `eps`
// RUN one_attribute {eps = 1.0 : f32, more = true} -> f32[] !! INVALID_ARGUMENT unknown attribute `more`; remove it
static ffi::Error OneAttribute(ffi::ResultBufferR0<ffi::F32> y, float eps) {
  *y->typed_data() = eps;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(one_attribute, OneAttribute,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR0<ffi::F32>>()
                                  .Attr<float>("eps"));

// Upstream's ArrayAttr, with ten element types
template <typename T>
static ffi::Error Array(ffi::ResultBufferR1<ffi::F64> y, ffi::Span<const T> v) {
  EXPECT(v.size() == 3 && v.front() == v[0] && v.back() == v[2]);
  EXPECT(v.first(1).size() == 1 && v.last(2)[0] == v[1]);
  for (size_t i = 0; i < v.size(); ++i) y->typed_data()[i] = static_cast<double>(v[i]);
  return ffi::Error::Success();
}
#define ARRAY(name, T)                                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Array<T>,                                \
                                ffi::Ffi::Bind()                               \
                                    .Ret<ffi::BufferR1<ffi::F64>>()            \
                                    .Attr<ffi::Span<const T>>("v"))
// RUN array_i8 {v = array<i8: 1, 2, 3>} -> f64[3] == 1,2,3
ARRAY(array_i8, int8_t);
// RUN array_i16 {v = array<i16: 1, 2, 3>} -> f64[3] == 1,2,3
ARRAY(array_i16, int16_t);
// RUN array_i32 {v = array<i32: 1, 2, 3>} -> f64[3] == 1,2,3
// RUN array_i32 {v = array<i64: 1, 2, 3>} -> f64[3] !! INVALID_ARGUMENT attribute `v`: expected S32[?], got S64
// RUN array_i32 {v = 1 : i32} -> f64[3] !! INVALID_ARGUMENT attribute `v`: expected S32[?], got S32
ARRAY(array_i32, int32_t);
// RUN array_i64 {v = array<i64: 1, 2, 3>} -> f64[3] == 1,2,3
ARRAY(array_i64, int64_t);
// RUN array_u8 {v = dense<[1, 2, 3]> : tensor<3xui8>} -> f64[3] == 1,2,3
ARRAY(array_u8, uint8_t);
// RUN array_u16 {v = dense<[1, 2, 3]> : tensor<3xui16>} -> f64[3] == 1,2,3
ARRAY(array_u16, uint16_t);
// RUN array_u32 {v = dense<[1, 2, 3]> : tensor<3xui32>} -> f64[3] == 1,2,3
ARRAY(array_u32, uint32_t);
// RUN array_u64 {v = dense<[1, 2, 3]> : tensor<3xui64>} -> f64[3] == 1,2,3
ARRAY(array_u64, uint64_t);
// RUN array_f32 {v = array<f32: 1.5, 2.0, 3.0>} -> f64[3] == 1.5,2,3
ARRAY(array_f32, float);
// RUN array_f64 {v = array<f64: 1.5, 2.0, 3.0>} -> f64[3] == 1.5,2,3
ARRAY(array_f64, double);

// String attributes
// RUN string_attr {s = "hello"} -> u8[5] == 104,101,108,108,111
// RUN string_attr {s = ""} -> u8[0] ==
// RUN string_attr {s = 1 : i32} -> u8[1] !! INVALID_ARGUMENT attribute `s`: expected a string, got S32
static ffi::Error StringAttr(ffi::ResultBufferR1<ffi::U8> y, std::string_view s) {
  std::copy(s.begin(), s.end(), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(string_attr, StringAttr,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::U8>>()
                                  .Attr<std::string_view>("s"));

// Upstream's AttrsAsDictionary
// RUN attrs_as_dictionary {a = 1 : i32, b = 2.5 : f32, c = "xyz"} -> f64[5] == 3,1,2.5,3,0
// RUN attrs_as_dictionary {a = 1 : i32, b = 2.5 : f32} -> f64[5] !! INTERNAL missing attribute `c`
// RUN attrs_as_dictionary {a = 1 : i64, b = 2.5 : f32, c = "xyz"} -> f64[5] !! INTERNAL attribute `a`: expected S32, got S64
static ffi::Error AttrsAsDictionary(ffi::ResultBufferR1<ffi::F64> y, ffi::Dictionary dict) {
  ffi::ErrorOr<int32_t> a = dict.get<int32_t>("a");
  if (a.has_error()) return a.error();
  ffi::ErrorOr<float> b = dict.get<float>("b");
  if (!b) return b.error();
  auto c = dict.get<std::string_view>("c");
  if (c.has_error()) return std::move(c).error();
  EXPECT(dict.contains("a") && !dict.contains("d"));
  EXPECT(dict.contains<int32_t>("a") && !dict.contains<float>("a"));
  EXPECT(dict.contains<std::string_view>("c") && !dict.empty());
  size_t names = 0;
  for (std::string_view name : dict) names += name.size();
  EXPECT(names == 3);
  EXPECT(dict.isa<int32_t>(dict.begin()) && !dict.isa<int64_t>(dict.begin()));
  const double values[] = {Int(dict.size()) * 1.0, *a * 1.0, *b, Int(c->size()) * 1.0, 0.0};
  std::copy(std::begin(values), std::end(values), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attrs_as_dictionary, AttrsAsDictionary,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attrs());

// Upstream's DictionaryAttr, with a nested dictionary
// RUN dictionary_attr {d = {x = 1 : i64, inner = {y = 2 : i64}}} -> s64[2] == 1,2
// RUN dictionary_attr {d = 1 : i64} -> s64[2] !! INVALID_ARGUMENT attribute `d`: expected a dictionary, got S64
static ffi::Error DictionaryAttr(ffi::ResultBufferR1<ffi::S64> y, ffi::Dictionary d) {
  auto x = d.get<int64_t>("x");
  if (x.has_error()) return x.error();
  auto inner = d.get<ffi::Dictionary>("inner");
  if (inner.has_error()) return inner.error();
  auto z = inner->get<int64_t>("y");
  if (z.has_error()) return z.error();
  Put(y, {*x, *z});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(dictionary_attr, DictionaryAttr,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<ffi::Dictionary>("d"));

// Upstream's StructAttr, with a nested struct
// RUN struct_attr {p = {a = 3 : i64, b = 0.5 : f32}} -> f64[2] == 3,0.5
// RUN struct_attr {p = {a = 3 : i64, c = 0.5 : f32}} -> f64[2] !! INVALID_ARGUMENT attribute `p`: missing entry `b`
// RUN struct_attr {p = {a = 3 : i32, b = 0.5 : f32}} -> f64[2] !! INVALID_ARGUMENT attribute `p`: entry `a`: expected S64, got S32
// RUN struct_attr {p = {a = 3 : i64}} -> f64[2] !! INVALID_ARGUMENT attribute `p`: missing entry `b`
// RUN struct_attr {p = {a = 3 : i64, b = 0.5 : f32, c = 1 : i32}} -> f64[2] !! INVALID_ARGUMENT attribute `p`: unknown entry `c`; remove it
static ffi::Error StructAttr(ffi::ResultBufferR1<ffi::F64> y, Pair p) {
  y->typed_data()[0] = static_cast<double>(p.a);
  y->typed_data()[1] = p.b;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    struct_attr, StructAttr,
    ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<Pair>("p"));
// RUN nested_struct_attr {s = {pair = {a = 3 : i64, b = 0.5 : f32}, name = "four"}} -> f64[3] == 3,0.5,4
static ffi::Error NestedStructAttr(ffi::ResultBufferR1<ffi::F64> y, Nested s) {
  y->typed_data()[0] = static_cast<double>(s.pair.a);
  y->typed_data()[1] = s.pair.b;
  y->typed_data()[2] = static_cast<double>(s.name.size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    nested_struct_attr, NestedStructAttr,
    ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<Nested>("s"));

// Upstream's AttrsAsStruct, AutoBindingStructs and AutoBindingDictionary
// RUN attrs_as_struct {a = 3 : i64, b = 0.5 : f32} -> f64[2] == 3,0.5
// RUN attrs_as_struct {a = 3 : i64} -> f64[2] !! INVALID_ARGUMENT missing entry `b`
XLA_FFI_DEFINE_HANDLER_SYMBOL(attrs_as_struct, StructAttr,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attrs<Pair>());
// RUN auto_struct {a = 3 : i64, b = 0.5 : f32} -> f64[2] == 3,0.5
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_struct, StructAttr);
// RUN auto_dictionary {a = 1 : i32, b = 2.5 : f32, c = "xyz"} -> f64[5] == 3,1,2.5,3,0
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_dictionary, AttrsAsDictionary);

// Upstream's BuiltinAttributesAutoBinding
// RUN auto_attributes {i = 4 : i32, s = "ab"} -> s64[2] == 4,2
static constexpr char kI[] = "i";
static constexpr char kS[] = "s";
static ffi::Error AutoAttributes(ffi::Attr<int32_t, kI> i, ffi::Attr<std::string_view, kS> s,
                                 ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {*i, Int(s->size())});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_attributes, AutoAttributes);

// Upstream's EnumAttr and WrongEnumAttrType
// RUN enum_attr {c = 1 : i32} -> s64[1] == 1
// RUN enum_attr {c = 1 : i64} -> s64[1] !! INVALID_ARGUMENT attribute `c`: expected S32, got S64
// RUN enum_attr {c = "kGreen"} -> s64[1] !! INVALID_ARGUMENT attribute `c`: expected S32, got a string
static ffi::Error EnumAttr(ffi::ResultBufferR1<ffi::S64> y, Color c) {
  Put(y, {static_cast<int64_t>(c)});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    enum_attr, EnumAttr, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Color>("c"));
// RUN enum_wide {c = 1 : i64} -> s64[1] == 1
static ffi::Error EnumWide(ffi::ResultBufferR1<ffi::S64> y, Wide c) {
  Put(y, {static_cast<int64_t>(c)});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    enum_wide, EnumWide, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<Wide>("c"));

// Upstream's PointerAttr
// RUN pointer_attr {p = 4096 : i64} -> s64[1] == 4096
// RUN pointer_attr {p = 4096 : i32} -> s64[1] !! INVALID_ARGUMENT attribute `p`: expected S64, got S32
static ffi::Error PointerAttr(ffi::ResultBufferR1<ffi::S64> y, const int* p) {
  Put(y, {static_cast<int64_t>(reinterpret_cast<intptr_t>(p))});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(pointer_attr, PointerAttr,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<ffi::Pointer<const int>>("p"));

// Upstream's VariantAttrDecoding
// RUN variant_attr {v = 3 : i64} -> f64[2] == 0,3
// RUN variant_attr {v = 2.5 : f64} -> f64[2] == 1,2.5
// RUN variant_attr {v = "abcd"} -> f64[2] == 2,4
// RUN variant_attr {v = true} -> f64[2] !! INVALID_ARGUMENT attribute `v`: expected one of the types that the handler takes, got PRED
using Variant = std::variant<int64_t, double, std::string_view>;
static ffi::Error VariantAttr(ffi::ResultBufferR1<ffi::F64> y, Variant v) {
  y->typed_data()[0] = static_cast<double>(v.index());
  if (auto* i = std::get_if<int64_t>(&v)) y->typed_data()[1] = static_cast<double>(*i);
  if (auto* d = std::get_if<double>(&v)) y->typed_data()[1] = *d;
  if (auto* s = std::get_if<std::string_view>(&v)) y->typed_data()[1] = Int(s->size()) * 1.0;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    variant_attr, VariantAttr,
    ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<Variant>("v"));

// Upstream's IgnoreAttrs: a handler that binds no attributes accepts any attributes
// RUN ignore_attrs {a = 1 : i32, b = "x"} -> s64[1] == 1
static ffi::Error IgnoreAttrs(ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {1});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ignore_attrs, IgnoreAttrs,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's DecodingErrors: all errors are reported together
// RUN decoding_errors {a = 1 : i64, b = "x"} f64[1]=1 -> s32[1] !! INVALID_ARGUMENT attribute `b`: expected F32, got a string
static ffi::Error DecodingErrors(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>, int32_t,
                                 float) {
  return ffi::Error::Internal("it decoded");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(decoding_errors, DecodingErrors,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int32_t>("a")
                                  .Attr<float>("b"));

// Attribute names are sorted by bytes: capitals first, then '_', then lower-case letters, then non-ASCII
// RUN sorted_names {Z = 1 : i32, a = 2 : i32, _ = 3 : i32, ab = 4 : i32} -> s64[4] == 1,2,3,4
static ffi::Error SortedNames(ffi::ResultBufferR1<ffi::S64> y, int32_t capital, int32_t a,
                              int32_t line, int32_t ab) {
  Put(y, {capital, a, line, ab});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(sorted_names, SortedNames,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<int32_t>("Z")
                                  .Attr<int32_t>("a")
                                  .Attr<int32_t>("_")
                                  .Attr<int32_t>("ab"));

// Bounds of attributes are inclusive
// RUN-OURS bounded {n = 1, u = 7 : ui8, r = {lo = -3, hi = 0.1 : f32}} -> s64[1] == 1
// RUN-OURS bounded {n = 64, u = 0 : ui8, eps = 0.5, r = {lo = 9, hi = -1.0 : f32}} -> s64[1] == 64
// RUN-OURS bounded {n = 0, u = 0 : ui8, r = {lo = 0, hi = 0.0 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `n`: expected at least 1, got 0
// RUN-OURS bounded {n = 65, u = 0 : ui8, r = {lo = 0, hi = 0.0 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `n`: expected at most 64, got 65
// RUN-OURS bounded {n = 1, u = 8 : ui8, r = {lo = 0, hi = 0.0 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `u`: expected at most 7, got 8
// RUN-OURS bounded {n = 1, u = 0 : ui8, eps = 0.0, r = {lo = 0, hi = 0.0 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `eps`: expected at least 1e-06, got 0
// RUN-OURS bounded {n = 1, u = 0 : ui8, r = {lo = -4, hi = 0.0 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `r`: entry `lo`: expected at least -3, got -4
// RUN-OURS bounded {n = 1, u = 0 : ui8, r = {lo = 0, hi = 0.5 : f32}} -> s64[1] !! INVALID_ARGUMENT attribute `r`: entry `hi`: expected at most 0.1
#if OURS
struct Limited {
  int64_t lo;
  float hi;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Limited, xla::ffi::StructMember<int64_t>("lo").Min(-3),
                                      xla::ffi::StructMember<float>("hi").Max(0.1));
static ffi::Error Bounded(ffi::ResultBufferR1<ffi::S64> y, int64_t n, uint8_t, std::optional<double>, Limited) {
  Put(y, {n});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(bounded, Bounded,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<int64_t>("n").Min(1).Max(64)
                                  .Attr<uint8_t>("u").Max(7)
                                  .Attr<std::optional<double>>("eps").Min(1e-6)
                                  .Attr<Limited>("r"));
XLA_FFI_LIBRARY(attributes, XLA_FFI_HANDLER(bounded));
#endif
