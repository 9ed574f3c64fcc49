// Tests of binding styles that occur in real handler sources. See operands.cc for the RUN lines.
//
// Some sources declare `ffi::Dictionary` before they include the headers.
namespace xla::ffi {
class Dictionary;
}
#include "common.h"

// Many sources initialize handler bundles without the record handler.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

// Forms of returned errors: `{}`, a copy of a const local, kOk, the C enum, a convertible class
struct Status {
  bool good;
  operator ffi::Error() const {  // NOLINT
    return good ? ffi::Error() : ffi::Error(XLA_FFI_Error_Code_DATA_LOSS, "lost");
  }
};
// RUN error_forms {n = 0 : i64} -> ==
// RUN error_forms {n = 1 : i64} -> !! INTERNAL kept
// RUN error_forms {n = 2 : i64} -> ==
// RUN error_forms {n = 3 : i64} -> !! OUT_OF_RANGE c
// RUN error_forms {n = 4 : i64} -> !! DATA_LOSS lost
// RUN error_forms {n = 5 : i64} -> ==
static ffi::Error ErrorForms(int64_t n) {
  const ffi::Error kept = ffi::Error::Internal("kept");
  switch (n) {
    case 0:
      return {};
    case 1:
      return kept;
    case 2:
      return ffi::Error(ffi::ErrorCode::kOk, "");
    case 3:
      return ffi::Error(XLA_FFI_Error_Code_OUT_OF_RANGE, "c");
    case 4:
      return Status{false};
    default:
      return Status{true};
  }
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(error_forms, ErrorForms, (ffi::Ffi::Bind().Attr<int64_t>("n")));

// Function templates that return `Unexpected(error)`
template <typename T>
static ffi::ErrorOr<T> OnlyPositive(T value) {
  if (value > 0) return value;
  return ffi::Unexpected(ffi::Error::InvalidArgument("not positive"));
}
// RUN unexpected {x = 2 : i32} -> s64[1] == 2
// RUN unexpected {x = 0 : i32} -> s64[1] !! INVALID_ARGUMENT not positive
static ffi::Error UnexpectedForm(ffi::ResultBufferR1<ffi::S64> y, int32_t x) {
  auto value = OnlyPositive(x);
  if (!value.has_value()) return value.error();
  Put(y, {*value});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(unexpected, UnexpectedForm,
                              (ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("x")));

// A handler inside a member function template, with an attribute type whose decoding is declared later
enum class Late : int32_t { kOne = 1 };
struct LateRange {
  int64_t lo, hi;
};
template <typename T>
struct Maker {
  static XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) {
    XLA_FFI_DEFINE_HANDLER(handler, &Maker::Run,
                           ffi::Ffi::Bind()
                               .template Ret<ffi::BufferR1<ffi::S64>>()
                               .template Attr<Late>("late")
                               .template Attr<T>("range"));
    return (*handler)(frame);
  }
  static ffi::Error Run(ffi::ResultBufferR1<ffi::S64> y, Late late, T range) {
    Put(y, {static_cast<int64_t>(late), range.lo, range.hi});
    return ffi::Error::Success();
  }
};
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Late);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(LateRange, ::xla::ffi::StructMember<int64_t>("lo"),
                                      ::xla::ffi::StructMember<int64_t>("hi"));
// RUN in_member_template {late = 1 : i32, range = {lo = 2 : i64, hi = 3 : i64}} -> s64[3] == 1,2,3
XLA_FFI_DECLARE_HANDLER_SYMBOL(in_member_template);
XLA_FFI_Error* in_member_template(XLA_FFI_CallFrame* frame) {
  return Maker<LateRange>::Call(frame);
}

// A class that derives from Ffi, overrides Call and uses protected helpers
class Raw final : public ffi::Ffi {
 public:
  XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const override {
    if (frame->extension_start != nullptr) return Metadata(frame);
    if (auto* error = StructSizeIsGreaterOrEqual(frame->api, "frame", 1, frame->struct_size)) {
      return error;
    }
    if (auto* error = CheckStructSize(frame->api, "args", XLA_FFI_Args_STRUCT_SIZE,
                                      frame->args.struct_size)) {
      return error;
    }
    if (frame->args.size == 1) return InvalidArgument(frame->api, "one is not enough");
    if (frame->args.size == 2) return FailedPrecondition(frame->api, "two is too many");
    if (frame->args.size == 3) return MakeError(frame->api, XLA_FFI_Error_Code_ABORTED, "three");
    return Success();
  }

 private:
  static XLA_FFI_Error* Metadata(XLA_FFI_CallFrame* frame) {
    auto* extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
    const int minor = frame->api != nullptr ? frame->api->api_version.minor_version : 1;
    extension->metadata->api_version =
        XLA_FFI_Api_Version{XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, 0, minor};
    return Success();
  }
};
// RUN derived {} -> ==
// RUN derived {} f32[1]=1 -> !! INVALID_ARGUMENT one is not enough
// RUN derived {} f32[1]=1 f32[1]=1 -> !! FAILED_PRECONDITION two is too many
// RUN derived {} f32[1]=1 f32[1]=1 f32[1]=1 -> !! ABORTED three
XLA_FFI_DECLARE_HANDLER_SYMBOL(derived);
XLA_FFI_Error* derived(XLA_FFI_CallFrame* frame) {
  static const Raw* handler = new Raw;
  return handler->Call(frame);
}

// A stored binding that is called manually; a lambda with captures; upstream's Wrapper
// RUN by_hand {} f32[2]=1,2 -> f32[2] == 3,6
XLA_FFI_DECLARE_HANDLER_SYMBOL(by_hand);
XLA_FFI_Error* by_hand(XLA_FFI_CallFrame* frame) {
  const float by = 3.0f;
  static const auto handler =
      ffi::Ffi::Bind()
          .Arg<ffi::BufferR1<ffi::F32>>()
          .Ret<ffi::BufferR1<ffi::F32>>()
          .To([by](ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
            for (size_t i = 0; i < x.element_count(); ++i) {
              y->typed_data()[i] = by * x.typed_data()[i];
            }
            return ffi::Error::Success();
          });
  const ffi::Ffi& base = *handler;
  return base.Call(frame);
}
// RUN wrapped {} f32[2]=1,2 -> f32[2] == 2,4
static ffi::Error Twice(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(wrapped, ffi::Ffi::Wrapper<Twice>());
// RUN bind_to {} f32[2]=1,2 -> f32[2] == 2,4
XLA_FFI_DECLARE_HANDLER_SYMBOL(bind_to);
XLA_FFI_Error* bind_to(XLA_FFI_CallFrame* frame) {
  static auto handler = ffi::Ffi::BindTo(Twice, {ffi::Traits::kCmdBufferCompatible});
  return handler->Call(frame);
}

// Attribute names that are computed at run time, as std::string
// RUN runtime_names {alpha = 1 : i64, beta = 2 : i64} -> s64[2] == 1,2
static ffi::Error TwoNumbers(ffi::ResultBufferR1<ffi::S64> y, int64_t a, int64_t b) {
  Put(y, {a, b});
  return ffi::Error::Success();
}
static std::string NameOf(int i) { return i == 0 ? "alpha" : "beta"; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(runtime_names, TwoNumbers,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<int64_t>(NameOf(0))
                                  .Attr<int64_t>(NameOf(1)));

// Decoding of user-defined types of attributes, arguments and contexts
struct Seconds {
  double value;
};
struct Length {
  int64_t value;
};
namespace xla::ffi {
template <>
struct AttrDecoding<Seconds> {
  using Type = Seconds;
  static std::optional<Seconds> Decode(XLA_FFI_AttrType type, void* attr,
                                       DiagnosticEngine& diagnostic) {
    auto value = AttrDecoding<double>::Decode(type, attr, diagnostic);
    if (!value.has_value()) return std::nullopt;
    if (*value < 0) return diagnostic.Emit("negative time: ") << *value;
    return Seconds{*value};
  }
};
template <>
struct ArgDecoding<Length> {
  static bool Isa(XLA_FFI_ArgType type, void*) { return type == XLA_FFI_ArgType_BUFFER; }
  static std::optional<Length> Decode(XLA_FFI_ArgType, void* arg, DiagnosticEngine& diagnostic) {
    auto* buffer = static_cast<XLA_FFI_Buffer*>(arg);
    if (buffer->rank != 1) return diagnostic.Emit("no length in rank ") << buffer->rank;
    return Length{buffer->dims[0]};
  }
};
template <>
struct ArgBinding<Length> {
  using Arg = Length;
};
// Decoders that fail in every second call
template <int attempt = 0>
std::optional<int> EveryOtherTime(const char* what, DiagnosticEngine& diagnostic) {
  static std::atomic<int> attempts{0};
  if (attempts++ % 2 == 0) return diagnostic.Emit(what) << " is busy";
  return 1;
}
struct BusyAttr {};
template <>
struct AttrDecoding<BusyAttr> {
  using Type = int;
  static std::optional<int> Decode(XLA_FFI_AttrType, void*, DiagnosticEngine& diagnostic) {
    return EveryOtherTime<0>("the attribute", diagnostic);
  }
};
struct BusyContext {};
template <>
struct CtxDecoding<BusyContext> {
  using Type = int;
  static std::optional<int> Decode(const XLA_FFI_Api*, XLA_FFI_InvokeContext*, DiagnosticEngine& diagnostic) {
    return EveryOtherTime<1>("the context", diagnostic);
  }
};
struct ContextAddress {};
template <>
struct CtxDecoding<ContextAddress> {
  using Type = const void*;
  static std::optional<Type> Decode(const XLA_FFI_Api*, XLA_FFI_InvokeContext* ctx,
                                    DiagnosticEngine&) {
    return ctx;
  }
};
struct Outcome {
  bool good;
};
template <ExecutionStage stage>
struct ResultEncoding<stage, Outcome> {
  static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                               Outcome outcome) {
    return ResultEncoding<stage, Error>::Encode(
        api, ctx, outcome.good ? Error() : Error(ErrorCode::kUnavailable, "not good"));
  }
};
}  // namespace xla::ffi
// RUN custom_types {t = 1.5} s32[7]=iota -> s64[2] == 7,1
// RUN custom_types {t = -1.0} s32[7]=iota -> s64[2] !! INVALID_ARGUMENT attribute `t`: negative time: -1
// RUN custom_types {t = 1.5} s32[7,1]=iota -> s64[2] !! INVALID_ARGUMENT argument 0: no length in rank 2
// RUN custom_types {t = 99.0} s32[7]=iota -> s64[2] !! UNAVAILABLE not good
static xla::ffi::Outcome CustomTypes(Length length, Seconds t, const void* ctx,
                                     ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {length.value, ctx != nullptr});
  return {t.value < 10};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(custom_types, CustomTypes,
                              ffi::Ffi::Bind()
                                  .Arg<Length>()
                                  .Attr<Seconds>("t")
                                  .Ctx<ffi::ContextAddress>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// A decoder runs once per call, and its error is kept
// RUN-OURS decoded_once {a = 1} -> s64[1] !! INVALID_ARGUMENT attribute `a`: the attribute is busy\n  the context is busy
// RUN-OURS decoded_once {a = 1} -> s64[1] == 2
static ffi::Error DecodedOnce(int attr, int context, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {attr + context});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(decoded_once, DecodedOnce,
                              ffi::Ffi::Bind()
                                  .Attr<ffi::BusyAttr>("a")
                                  .Ctx<ffi::BusyContext>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Pointers that are cast from untyped_data, and user-defined element types of the right size
struct Half {
  uint16_t bits;
};
// RUN user_element_types {} f16[2]=1,2 -> s64[2] == 15360,16384
static ffi::Error UserElementTypes(ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::S64> y) {
  const auto* a = static_cast<const Half*>(x.untyped_data());
  const Half* b = x.reinterpret_data<Half>();
  EXPECT(a == b);
  Put(y, {a[0].bits, b[1].bits});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    user_element_types, UserElementTypes,
    ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::S64>>());

// A missing value or a value of a wrong type fails the call
// RUN-OURS not_there {k = 1.5 : f32} f32[]=2 -> s64[1] == 3
// RUN-OURS not_there {k = 1.5 : f64} f32[]=2 -> s64[1] !! INTERNAL the value of an error was asked for: attribute `k`: expected F32, got F64
// RUN-OURS not_there {k = 1.5 : f32} f64[]=2 -> s64[1] !! INTERNAL the data of a buffer of F64 was asked for as elements of 4 bytes
// RUN-OURS not_there {k = 1.5 : f32, wide = true} s16[2]=2,2 -> s64[1] !! INTERNAL the data of a buffer of S16 was asked for as elements of 4 bytes
// RUN-OURS not_there {k = 1.5 : f32, bytes = true} s16[2]=258,2 -> s64[1] == 3
// RUN-OURS not_there {k = 1.5 : f32} s32[]=2 -> s64[1] !! INTERNAL the data of a buffer of S32 was asked for as elements of F32
// RUN-OURS not_there {k = 1.5 : f32, wide = true} s32[]=1073741824 -> s64[1] == 3
static ffi::Error NotThere(ffi::AnyBuffer x, ffi::Dictionary attrs, ffi::ResultBufferR1<ffi::S64> y) {
  const float k = *attrs.get<float>("k");
  if (attrs.contains("bytes")) {
    Put(y, {x.typed_data<uint8_t>()[0] + x.typed_data<uint8_t>()[1]});
    return ffi::Error::Success();
  }
  Put(y, {static_cast<int64_t>(k * (attrs.contains("wide") ? x.reinterpret_data<float>() : x.typed_data<float>())[0])});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    not_there, NotThere,
    ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Attrs().Ret<ffi::BufferR1<ffi::S64>>());

// A C++ type reads only buffers of the corresponding element type. uint16_t also reads 16-bit types that C++ does not
// have
// RUN-OURS as_u16 {} f16[1]=1 -> s64[1] == 15360
// RUN-OURS as_u16 {} bf16[1]=1 -> s64[1] == 16256
// RUN-OURS as_u16 {} u16[1]=7 -> s64[1] == 7
// RUN-OURS as_u16 {} s16[1]=7 -> s64[1] !! INTERNAL the data of a buffer of S16 was asked for as elements of U16: reinterpret_data
// RUN-OURS as_u16 {} s32[1]=7 -> s64[1] !! INTERNAL of 2 bytes
// RUN-OURS as_u16 {s = true} f16[1]=1 -> s64[1] !! INTERNAL the data of a buffer of F16 was asked for as elements of S16
// RUN-OURS as_u16 {s = true} s16[1]=7 -> s64[1] == 7
// RUN-OURS as_u16 {c = true} c64[1]=7 -> s64[1] !! INTERNAL the data of a buffer of C64 was asked for as elements of F64
// RUN-OURS as_u16 {own = true} s16[1]=7 -> s64[1] == 7
static ffi::Error AsU16(ffi::AnyBuffer x, ffi::Dictionary attrs, ffi::ResultBufferR1<ffi::S64> y) {
  if (attrs.contains("c")) {
    Put(y, {static_cast<int64_t>(*x.typed_data<double>())});
  } else if (attrs.contains("s")) {
    Put(y, {*x.typed_data<int16_t>()});
  } else if (attrs.contains("own")) {
    Put(y, {x.typed_data<const Half>()->bits});
  } else {
    Put(y, {*x.typed_data<const uint16_t>()});
  }
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(as_u16, AsU16, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Attrs().Ret<ffi::BufferR1<ffi::S64>>());

// A binding with 24 operands
#define A .Arg<ffi::BufferR0<ffi::F32>>()
using F = ffi::BufferR0<ffi::F32>;
// RUN long_list {} f32[]=1 f32[]=2 f32[]=3 f32[]=4 f32[]=5 f32[]=6 f32[]=7 f32[]=8 f32[]=9 f32[]=10 f32[]=11 f32[]=12 f32[]=13 f32[]=14 f32[]=15 f32[]=16 f32[]=17 f32[]=18 f32[]=19 f32[]=20 f32[]=21 f32[]=22 f32[]=23 f32[]=24 -> f32[] == 300
static ffi::Error LongList(F a, F b, F c, F d, F e, F f, F g, F h, F i, F j, F k, F l, F m, F n,
                           F o, F p, F q, F r, F s, F t, F u, F v, F w, F x,
                           ffi::ResultBufferR0<ffi::F32> y) {
  float sum = 0;
  for (F z : {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x}) {
    sum += *z.typed_data();
  }
  *y->typed_data() = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(long_list, LongList,
                              ffi::Ffi::Bind() A A A A A A A A A A A A A A A A A A A A A A A A
                                  .Ret<ffi::BufferR0<ffi::F32>>());

// Bundles with and without a record handler, and handlers as static constants in any scope
namespace nested {
struct Handlers {
  static XLA_FFI_Handler_Bundle Bundle() {
    XLA_FFI_DEFINE_HANDLER(kExecute, Twice);
    return XLA_FFI_Handler_Bundle{nullptr, nullptr, nullptr, kExecute};
  }
};
}  // namespace nested
// RUN bundles {} -> ==
SELF_TEST(bundles) {
  XLA_FFI_Handler_Bundle a = nested::Handlers::Bundle();
  XLA_FFI_Handler_Bundle b = {nullptr, nullptr, nullptr, a.execute, nullptr};
  EXPECT(a == b && !(a != b) && a.execute != nullptr);
  return ffi::Error::Success();
}
