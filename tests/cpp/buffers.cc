// Tests of access to buffers: packed elements, bytes, empty buffers. See operands.cc for the RUN lines.
#include "common.h"

// Reads a buffer as different types. Byte types are char, unsigned char (uint8_t) and std::byte.
struct Byte {
  uint8_t bits;
};
enum class Small : int8_t {};
template <typename T>
static int64_t First(ffi::AnyBuffer x, bool by_width) {
  T* const data = by_width ? x.reinterpret_data<T>() : x.typed_data<T>();
  return static_cast<int64_t>(*reinterpret_cast<const uint8_t*>(data));
}
// RUN-OURS seen_as {as = 0 : i32} u8[1]=200 -> s64[1] == 200
// RUN-OURS seen_as {as = 0 : i32} f32[1]=1 -> s64[1] == 0
// RUN-OURS seen_as {as = 0 : i32} f8e5m2[1]=1 -> s64[1] == 60
// RUN-OURS seen_as {as = 1 : i32} s16[1]=258 -> s64[1] == 2
// RUN-OURS seen_as {as = 2 : i32} f64[1]=1 -> s64[1] == 0
// RUN-OURS seen_as {as = 3 : i32} s8[1]=5 -> s64[1] == 5
// RUN-OURS seen_as {as = 3 : i32} u8[1]=200 -> s64[1] !! INTERNAL the data of a buffer of U8 was asked for as elements of S8: reinterpret_data
// RUN-OURS seen_as {as = 3 : i32, by_width = true} u8[1]=200 -> s64[1] == 200
// RUN-OURS seen_as {as = 3 : i32} f32[1]=1 -> s64[1] !! INTERNAL the data of a buffer of F32 was asked for as elements of 1 bytes
// RUN-OURS seen_as {as = 3 : i32, by_width = true} f32[1]=1 -> s64[1] !! INTERNAL the data of a buffer of F32 was asked for as elements of 1 bytes
// RUN-OURS seen_as {as = 3 : i32} pred[1]=1 -> s64[1] !! INTERNAL the data of a buffer of PRED was asked for as elements of S8
// RUN-OURS seen_as {as = 4 : i32} pred[1]=1 -> s64[1] == 1
// RUN-OURS seen_as {as = 4 : i32} s8[1]=2 -> s64[1] !! INTERNAL the data of a buffer of S8 was asked for as elements of PRED
// RUN-OURS seen_as {as = 4 : i32} f32[1]=2 -> s64[1] !! INTERNAL the data of a buffer of F32 was asked for as elements of 1 bytes
// RUN-OURS seen_as {as = 5 : i32} u8[1]=200 -> s64[1] == 200
// RUN-OURS seen_as {as = 5 : i32} f8e4m3fn[1]=1 -> s64[1] == 56
// RUN-OURS seen_as {as = 5 : i32} f64[1]=1 -> s64[1] !! INTERNAL the data of a buffer of F64 was asked for as elements of 1 bytes
// RUN-OURS seen_as {as = 5 : i32, by_width = true} f64[1]=1 -> s64[1] !! INTERNAL the data of a buffer of F64 was asked for as elements of 1 bytes
// RUN-OURS seen_as {as = 6 : i32} s8[1]=5 -> s64[1] == 5
// RUN-OURS seen_as {as = 6 : i32} s16[1]=5 -> s64[1] !! INTERNAL of 1 bytes
// RUN-OURS seen_as only=r5 {as = 2 : i32} s4[3]=1,-2,3 -> s64[1] == 225
// RUN-OURS seen_as only=r5 {as = 0 : i32} s4[3]=1,-2,3 -> s64[1] !! INTERNAL the data of a buffer of S4 was asked for as elements, of which several share a byte: packed_data
// RUN-OURS seen_as only=r5 {as = 1 : i32} u4[3]=1,2,3 -> s64[1] !! INTERNAL of which several share a byte: packed_data
// RUN-OURS seen_as only=r5 {as = 3 : i32} s4[3]=1,-2,3 -> s64[1] !! INTERNAL of which several share a byte: packed_data
// RUN-OURS seen_as only=r5 {as = 5 : i32} s4[3]=1,-2,3 -> s64[1] !! INTERNAL of which several share a byte: packed_data
// RUN-OURS seen_as only=r5 {as = 3 : i32, by_width = true} s4[3]=1,-2,3 -> s64[1] == 225
static ffi::Error SeenAs(ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::S64> y, ffi::Dictionary attrs) {
  const bool by_width = attrs.contains("by_width");
  switch (*attrs.get<int32_t>("as")) {
    case 0: Put(y, {First<uint8_t>(x, by_width)}); break;
    case 1: Put(y, {First<const char>(x, by_width)}); break;
    case 2: Put(y, {First<std::byte>(x, by_width)}); break;
    case 3: Put(y, {First<int8_t>(x, by_width)}); break;
    case 4: Put(y, {First<bool>(x, by_width)}); break;
    case 5: Put(y, {First<Byte>(x, by_width)}); break;
    default: Put(y, {First<Small>(x, by_width)});
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(seen_as, SeenAs, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::S64>>().Attrs());

#if OURS
// Packed elements are read as bytes, of which there are fewer than elements
// RUN-OURS packed_bytes from=r5 {} s4[3]=1,-2,3 -> u8[3] == 225,3,0
// RUN-OURS packed_bytes from=r5 {} s4[0]=zeros -> u8[0] ==
// RUN-OURS packed_bytes from=r5 {beyond = true} s4[3]=1,-2,3 -> u8[3] !! INTERNAL an element was asked for that is not there: there are 2
static ffi::Error PackedBytes(ffi::BufferR1<ffi::S4> x, ffi::ResultBufferR1<ffi::U8> y, ffi::Dictionary attrs) {
  const ffi::Span<uint8_t> from = x.packed_data();
  const size_t count = attrs.contains("beyond") ? x.element_count() : from.size();
  for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] = 0;
  for (size_t i = 0; i < count; ++i) y->typed_data()[i] = from[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(packed_bytes, PackedBytes,
                              ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::S4>>().Ret<ffi::BufferR1<ffi::U8>>().Attrs());
// RUN-OURS any_packed only=r5 {} s4[3]=1,-2,3 -> s64[2] == 2,225
// RUN-OURS any_packed {} s8[3]=1,2,3 -> s64[2] !! INTERNAL packed data was asked for of a buffer of S8: typed_data gives its elements
static ffi::Error AnyPacked(ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(x.packed_data().size()), x.packed_data()[0]});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(any_packed, AnyPacked, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::S64>>());
// Before r5, packed elements have no type, so operands of any type reject them in every position
// RUN-OURS any_everywhere from=r5 {} s4[3]=1,-2,3 f32[1]=0 f32[1]=0 -> s64[3] f32[1] f32[1] == 2,4,4;0;0
// RUN-OURS any_everywhere from=r5 {} f32[1]=0 s4[5]=3,0,2,1,3 f32[1]=0 -> s64[3] f32[1] f32[1] == 4,3,4;0;0
// RUN-OURS any_everywhere from=r5 {} f32[1]=0 f32[1]=0 s4[3]=1,2,3 -> s64[3] f32[1] f32[1] == 4,4,2;0;0
// RUN-OURS any_everywhere {} f32[1]=0 token s8[2]=0,0 -> s64[3] f32[1] f32[1] == 4,0,2;0;0
static ffi::Error AnyEverywhere(ffi::AnyBuffer x, std::optional<ffi::AnyBuffer> m, ffi::RemainingArgs args, ffi::ResultBufferR1<ffi::S64> y,
                                ffi::Result<ffi::AnyBuffer> z, ffi::RemainingRets rets) {
  const auto arg = args.get<ffi::AnyBuffer>(0);
  const auto ret = rets.get<ffi::AnyBuffer>(0);
  if (!arg.has_value()) return arg.error();
  if (!ret.has_value()) return ret.error();
  EXPECT(args.isa<ffi::AnyBuffer>(0) && rets.isa<ffi::AnyBuffer>(0));
  std::memset(z->untyped_data(), 0, z->size_bytes());
  std::memset((*ret)->untyped_data(), 0, (*ret)->size_bytes());
  Put(y, {Int(x.size_bytes()), Int(m->size_bytes()), Int(arg->size_bytes())});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(any_everywhere, AnyEverywhere,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .OptionalArg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .RemainingRets());
// RUN-OURS any_without_type {} -> ==
SELF_TEST(any_without_type) {
  XLA_FFI_Buffer raw{};
  raw.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  EXPECT(!ffi::ArgDecoding<ffi::AnyBuffer>::Isa(XLA_FFI_ArgType_BUFFER, &raw));
  EXPECT(!ffi::RetDecoding<ffi::AnyBuffer>::Isa(XLA_FFI_RetType_BUFFER, &raw));
  ffi::DiagnosticEngine diagnostic;
  EXPECT(!ffi::ArgDecoding<ffi::AnyBuffer>::Decode(XLA_FFI_ArgType_BUFFER, &raw, diagnostic).has_value());
  EXPECT(diagnostic.Result() ==
         "an array of elements of less than a byte arrives without its type in this XLA and packed the other way round; the first "
         "jaxlib that has it is 0.6.0");
  return ffi::Error::Success();
}
static_assert(ffi::IsPacked(ffi::S1) && ffi::IsPacked(ffi::U2) && ffi::IsPacked(ffi::F4E2M1FN));
static_assert(!ffi::IsPacked(ffi::S8) && !ffi::IsPacked(ffi::PRED) && !ffi::IsPacked(ffi::TOKEN));
#endif

// Empty operands may have null addresses
// RUN-OURS empty {a = array<i32>, s = ""} f32[0]=zeros f64[2,0]=zeros -> f32[0] s64[1] == ;1
static ffi::Error Empty(ffi::BufferR1<ffi::F32> x, ffi::AnyBuffer z, ffi::ResultBufferR1<ffi::F32> y, ffi::ResultBufferR1<ffi::S64> so,
                        ffi::Span<const int32_t> a, std::string_view s) {
  EXPECT(x.element_count() + z.element_count() + y->size_bytes() + a.size() + s.size() == 0);
  Put(so, {1});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(empty, Empty,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<ffi::Span<const int32_t>>("a")
                                  .Attr<std::string_view>("s"));
