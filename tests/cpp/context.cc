// Tests of context values. Comments name the corresponding upstream tests. See operands.cc for the syntax of RUN lines;
// options such as `stream=`, `scratch` and `options=` configure the call.
#include "common.h"

// Upstream's PlatformStream and BindingPlatformStreamInference
// RUN platform_stream stream=4660 {} -> s64[1] == 4660
// RUN platform_stream {} -> s64[1] !! INVALID_ARGUMENT failed to get the platform's stream
static ffi::Error PlatformStream(void* stream, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {static_cast<int64_t>(reinterpret_cast<intptr_t>(stream))});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(platform_stream, PlatformStream,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
struct FakeStream;
namespace xla::ffi {
template <>
struct CtxBinding<FakeStream*> {
  using Ctx = PlatformStream<FakeStream*>;
};
}  // namespace xla::ffi
// RUN stream_inference stream=4660 {} -> s64[1] == 4660
static ffi::Error StreamInference(FakeStream* stream, ffi::ResultBufferR1<ffi::S64> y) {
  return PlatformStream(stream, y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(stream_inference, StreamInference);

// Upstream's ScratchAllocator and ScratchAllocatorUnimplemented
// RUN scratch scratch {} -> s64[2] == 1,1
// RUN scratch {} -> s64[2] == 0,0
static ffi::Error Scratch(ffi::ScratchAllocator scratch, ffi::ResultBufferR1<ffi::S64> y) {
  std::optional<void*> a = scratch.Allocate(1024);
  std::optional<void*> b = scratch.Allocate(16, 16);
  EXPECT(!scratch.Allocate(16, 512).has_value() && !scratch.Allocate(16, 3).has_value());
  if (a.has_value()) std::memset(*a, 1, 1024);
  if (b.has_value()) EXPECT(reinterpret_cast<uintptr_t>(*b) % 16 == 0);
#if OURS
  // XLA's limit for alignments is lower than 256: with upstream's headers, the allocation fails.
  std::optional<void*> c = scratch.Allocate(16, 256);
  EXPECT(c.has_value() == a.has_value());
  if (c.has_value()) EXPECT(reinterpret_cast<uintptr_t>(*c) % 256 == 0);
#endif
  Put(y, {a.has_value(), b.has_value()});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scratch, Scratch,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's ThreadPool tests: scheduling, recursive scheduling, size
// RUN thread_pool from=r1 {} -> s64[1] == 8
// RUN thread_pool from=r1 no-pool {} -> s64[1] == 8
static ffi::Error Pool(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y) {
  std::atomic<int64_t> done{0};
  std::atomic<int64_t> left{8};
  for (int i = 0; i < 4; ++i) {
    pool.Schedule([&] {
      ++done;
      --left;
      pool.Schedule([&] {
        ++done;
        --left;
      });
    });
  }
  while (left > 0) std::this_thread::yield();
  Put(y, {done});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    thread_pool, Pool,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR1<ffi::S64>>());
// RUN pool_size from=r1 no-pool {} -> s64[1] == 0
static ffi::Error PoolSize(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {pool.num_threads()});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    pool_size, PoolSize,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's RunId, RunIdViaContext and DeviceOrdinal
// RUN run_id from=r4 run-id=42 {} -> s64[1] == 42
static ffi::Error Run(ffi::RunId id, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {id.run_id});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(run_id, Run,
                              ffi::Ffi::Bind().Ctx<ffi::RunId>().Ret<ffi::BufferR1<ffi::S64>>());
// RUN run_id_via_context from=r5 run-id=43 ordinal=7 {} -> s64[2] == 43,7
static ffi::Error RunViaContext(ffi::Context context, ffi::ResultBufferR1<ffi::S64> y) {
  ffi::ErrorOr<ffi::RunId> id = context.get<ffi::RunId>();
  if (id.has_error()) return id.error();
  ffi::ErrorOr<int32_t> ordinal = context.get<ffi::DeviceOrdinal>();
  if (ordinal.has_error()) return ordinal.error();
  EXPECT(context.api() != nullptr && context.ctx() != nullptr);
  Put(y, {id->run_id, *ordinal});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(run_id_via_context, RunViaContext,
                              ffi::Ffi::Bind().Ctx().Ret<ffi::BufferR1<ffi::S64>>());
// RUN device_ordinal from=r5 ordinal=5 {} -> s64[1] == 5
static ffi::Error Ordinal(int32_t ordinal, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {ordinal});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    device_ordinal, Ordinal,
    ffi::Ffi::Bind().Ctx<ffi::DeviceOrdinal>().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's CustomOptions
// RUN custom_options from=r10 options={limit=3:i64,name="ab"} {} -> s64[3] == 2,3,2
// RUN custom_options from=r10 {} -> s64[3] == 0,-1,-1
static ffi::Error Options(ffi::Dictionary options, ffi::ResultBufferR1<ffi::S64> y) {
  auto limit = options.get<int64_t>("limit");
  auto name = options.get<std::string_view>("name");
  Put(y, {Int(options.size()), limit ? *limit : -1, name ? Int(name->size()) : -1});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    custom_options, Options,
    ffi::Ffi::Bind().Ctx<ffi::CustomOptions>().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's UserData, with an id that the caller registers
struct Numbers {
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId Numbers::id = {};
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(numbers_type_id);
XLA_FFI_TypeId* numbers_type_id() { return &Numbers::id; }
XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(numbers_type_info);
const XLA_FFI_TypeInfo* numbers_type_info() {
  static constexpr auto kInfo = ffi::MakeTypeInfo<Numbers>();
  return &kInfo;
}
// RUN user_data user-data=numbers {} -> s64[1] == 99
// RUN user_data type=numbers {} -> s64[1] !! INVALID_ARGUMENT failed to get user data from the context
static ffi::Error User(Numbers* numbers, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {numbers->value});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    user_data, User,
    ffi::Ffi::Bind().Ctx<ffi::UserData<Numbers>>().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's FindExtension, with a matching version and with a different version
struct TestCExtension {
  XLA_FFI_Extension extension_base;
  int64_t payload;
};
struct Payload {
  int64_t value;
};
struct TestExtension {
  using CExtension = TestCExtension;
  using Type = Payload;
  static constexpr auto kName = "TestExtension";
  static constexpr int64_t kExtensionType = 4711;
  static constexpr int32_t kMajorVersion = 1;
  static constexpr int32_t kMinorVersion = 2;
  static Type Create(const XLA_FFI_Api*, const CExtension* ext) { return Payload{ext->payload}; }
};
struct Tolerant : TestExtension {
  static bool Support(int32_t major, int32_t) { return major == 1; }
};
// RUN find_extension from=r9 extension=1.2 {} -> s64[1] == 33
// RUN find_extension from=r9 extension=1.3 {} -> s64[1] !! INVALID_ARGUMENT extension TestExtension: expected version 1.2, got 1.3
// RUN find_extension from=r9 {} -> s64[1] !! INVALID_ARGUMENT
static ffi::Error FindExtension(Payload payload, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {payload.value});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(find_extension, FindExtension,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::Extension<TestExtension>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
// RUN tolerant_extension from=r9 extension=1.3 {} -> s64[1] == 33
// RUN tolerant_extension from=r9 extension=2.0 {} -> s64[1] !! INVALID_ARGUMENT extension TestExtension: expected version 1.2, got 2.0
XLA_FFI_DEFINE_HANDLER_SYMBOL(tolerant_extension, FindExtension,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::Extension<Tolerant>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
