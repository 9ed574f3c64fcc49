// Tests of handlers that request missing elements or invalid memory. They get an error and never read out of bounds.
// See operands.cc for the syntax of RUN lines.
#include "common.h"

// Dimensions and attribute elements that are out of bounds
// RUN-OURS beyond {what = 0 : i64, v = array<i64: 5>} f32[]=1 -> s64[1] !! INTERNAL there are 0
// RUN-OURS beyond {what = 2 : i64, v = array<i64: 5>} f32[]=1 -> s64[1] !! INTERNAL there are 0
// RUN-OURS beyond {what = 3 : i64, v = array<i64: 5>} f32[]=1 -> s64[1] !! INTERNAL there are 1
// RUN-OURS beyond {what = 5 : i64, v = array<i64: 5>} f32[]=1 -> s64[1] !! INTERNAL there are 1
// RUN-OURS beyond {what = 6 : i64, v = array<i64: 5>} f32[]=1 -> s64[1] == 5
// RUN-OURS beyond {what = 6 : i64, v = array<i64>} f32[]=1 -> s64[1] == 0
#if OURS
static ffi::Error Beyond(ffi::AnyBuffer x, int64_t what, ffi::Span<const int64_t> v, ffi::ResultBufferR1<ffi::S64> y) {
  const ffi::AnyBuffer::Dimensions dims = x.dimensions();
  switch (what) {
    case 0:
      Put(y, {dims.back()});
      break;
    case 2:  // the usual way to remove the last two dimensions
      Put(y, {Int(dims.first(dims.size() - 2).size())});
      break;
    case 3:
      Put(y, {v[v.size()]});
      break;
    case 5:
      Put(y, {Int(v.first(2).size())});
      break;
    default:
      Put(y, {v.empty() ? 0 : v.first(1).front() + v.last(1).back() - v[0] + Int(v.first(0).size() + v.last(0).size())});
  }
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(beyond, Beyond,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Attr<int64_t>("what")
                                  .Attr<ffi::Span<const int64_t>>("v")
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Iterators past the last name, and iterators of a different dictionary
// RUN-OURS iterated_beyond {what = 0 : i64, d = {a = 1 : i64}} -> s64[1] !! INTERNAL leads to no value
// RUN-OURS iterated_beyond {what = 1 : i64, d = {a = 1 : i64}} -> s64[1] !! INTERNAL leads to no value
// RUN-OURS iterated_beyond {what = 2 : i64, d = {a = 1 : i64}} -> s64[1] !! INTERNAL name behind the last
// RUN-OURS iterated_beyond {what = 3 : i64, d = {a = 1 : i64}} -> s64[1] == 0
// RUN-OURS iterated_beyond {what = 3 : i64, d = {}} -> s64[1] == 0
static ffi::Error IteratedBeyond(int64_t what, ffi::Dictionary d, ffi::Dictionary all, ffi::ResultBufferR1<ffi::S64> y) {
  if (what == 0) return d.get<int64_t>(d.end()).error();
  if (what == 1) return all.get<int64_t>(d.begin()).error();
  if (what == 2) return ffi::Error::Internal(std::string(*d.end()));
  Put(y, {d.isa<int64_t>(d.end()) || d.isa<int64_t>(ffi::Dictionary::Iterator()) || all.isa<int64_t>(d.begin())});
  return {};
}
static ffi::Error Both(ffi::Dictionary all, ffi::ResultBufferR1<ffi::S64> y) {
  auto what = all.get<int64_t>("what");
  auto d = all.get<ffi::Dictionary>("d");
  if (!what || !d) return ffi::Error::Internal("not there");
  return IteratedBeyond(*what, *d, all, y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(iterated_beyond, Both, ffi::Ffi::Bind().Attrs().Ret<ffi::BufferR1<ffi::S64>>());

// A null pointer as state is an error, because later stages would dereference it
struct Nothing {
  static ffi::TypeId id;
  int64_t value = 0;
};
ffi::TypeId Nothing::id = {};
static ffi::ErrorOr<std::unique_ptr<Nothing>> NewNothing() { return std::unique_ptr<Nothing>(); }
static ffi::Error UseNothing(Nothing* nothing) { return nothing->value == 0 ? ffi::Error() : ffi::Error::Internal("odd"); }
// RUN-OURS no_state,instantiate=no_state_instantiate from=r1 {} -> !! INTERNAL left a null pointer
XLA_FFI_DEFINE_HANDLER_SYMBOL(no_state_instantiate, NewNothing, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(no_state, UseNothing, ffi::Ffi::Bind().Ctx<ffi::State<Nothing>>());

// In a stage without futures, the handler waits for the future that the function returned
static ffi::Future Later(int64_t fails) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, fails]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (fails != 0) return promise.SetError(ffi::Error(ffi::ErrorCode::kAborted, "as it was told to"));
    promise.SetAvailable();
  }).detach();
  return future;
}
static ffi::Error Nop(ffi::Dictionary) { return {}; }
// RUN-OURS nop,instantiate=later_instantiate only=r1 {fails = 0 : i64} -> ==
// RUN-OURS nop,instantiate=later_instantiate only=r1 {fails = 1 : i64} -> !! ABORTED as it was told to
XLA_FFI_DEFINE_HANDLER_SYMBOL(later_instantiate, Later, ffi::Ffi::BindInstantiate().Attr<int64_t>("fails"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(nop, Nop, ffi::Ffi::Bind().Attrs());

// An unknown error code is an error
// RUN-OURS no_code {code = 1000 : i64} -> !! UNKNOWN told
static ffi::Error NoCode(int64_t code) {
  return ffi::Error(static_cast<XLA_FFI_Error_Code>(static_cast<uint32_t>(code)), "told");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(no_code, NoCode, ffi::Ffi::Bind().Attr<int64_t>("code"));

// Scratch memory with an invalid alignment
// RUN-OURS aligned scratch {to = 64 : i64} -> s64[1] == 1
// RUN-OURS aligned scratch {to = 0 : i64} -> s64[1] == 0
// RUN-OURS aligned scratch {to = 96 : i64} -> s64[1] == 0
static ffi::Error Aligned(ffi::ScratchAllocator scratch, uint64_t to, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {scratch.Allocate(64, to).has_value()});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(aligned, Aligned,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Attr<int64_t>("to")
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// A type that inherits the id of a base type is an error as user data and as named state. Otherwise, the object would
// have the base type. For a single type, user data does not compile (tests/cpp/state.rs).
struct Plain {
  static ffi::TypeId id;
  int64_t value = 0;
};
ffi::TypeId Plain::id = {};
struct Derived : Plain {
  int64_t more = 0;
};
struct Renewed : Plain {
  static ffi::TypeId id;
};
ffi::TypeId Renewed::id = {};
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(plain_type_id);
XLA_FFI_TypeId* plain_type_id() { return &Plain::id; }
XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(plain_type_info);
const XLA_FFI_TypeInfo* plain_type_info() {
  static constexpr auto kInfo = ffi::MakeTypeInfo<Plain>();
  return &kInfo;
}
// RUN-OURS plain_twice user-data=plain {} -> s64[1] == 198
static ffi::Error PlainTwice(Plain* plain, const Plain* again, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {plain->value + again->value});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(plain_twice, PlainTwice,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::UserData<Plain>>()
                                  .Ctx<ffi::UserData<const Plain>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
// RUN-OURS named_state,instantiate=named_state_instantiate from=r1 {what = 0 : i64} -> s64[1] == 5
// RUN-OURS named_state,instantiate=named_state_instantiate {what = 1 : i64} -> s64[1] !! INVALID_ARGUMENT the id of type 'misuse.derived'
// RUN-OURS named_state,instantiate=named_state_instantiate from=r1 {what = 2 : i64} -> s64[1] !! INTERNAL
static ffi::ErrorOr<std::unique_ptr<Plain>> NewPlain(ffi::Context context, int64_t) {
  static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<Plain>();
  Plain::id = {};
  if (auto* error = ffi::Ffi::RegisterTypeId(context.api(), "misuse.plain", &Plain::id, &info)) {
    return ffi::Error::Internal(ffi::internal::GetErrorDetails(context.api(), error).message);
  }
  auto made = std::make_unique<Plain>();
  made->value = 5;
  return made;
}
static ffi::Error UseNamed(ffi::Context context, int64_t what, ffi::ResultBufferR1<ffi::S64> y) {
  if (what == 1) {
    static const XLA_FFI_TypeInfo plain = ffi::MakeTypeInfo<Plain>();
    static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<Derived>();
    // Hosts without the instantiate stage have not registered the type.
    if (auto* error = ffi::Ffi::RegisterTypeId(context.api(), "misuse.plain", &Plain::id, &plain)) {
      return ffi::Error::Internal(ffi::internal::GetErrorDetails(context.api(), error).message);
    }
    auto* error = ffi::Ffi::RegisterTypeId(context.api(), "misuse.derived", &Derived::id, &info);
    return ffi::Error::InvalidArgument(ffi::internal::GetErrorDetails(context.api(), error).message);
  }
  if (what == 2) {
    auto renewed = context.get<ffi::State<Renewed>>();
    return renewed ? ffi::Error() : renewed.error();
  }
  auto plain = context.get<ffi::State<Plain>>();
  if (!plain) return plain.error();
  Put(y, {(*plain)->value});
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(named_state_instantiate, NewPlain,
                              ffi::Ffi::BindInstantiate().Ctx<ffi::Context>().Attr<int64_t>("what"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(named_state, UseNamed,
                              ffi::Ffi::Bind().Ctx<ffi::Context>().Attr<int64_t>("what").Ret<ffi::BufferR1<ffi::S64>>());
#endif
