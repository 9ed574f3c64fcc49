// Errors as values, and what ends a handler that returns none: `operands.cc` says how to read the cases.
#include "common.h"

#include <pthread.h>

#include <functional>

// An error that was moved from is still one: a function that logs it and then returns it has failed. The message stays
// where it is short.
static ffi::Error Failed(bool is_long) {
  return is_long ? ffi::Error(ffi::ErrorCode::kDataLoss, std::string(100, 'x'))
                 : ffi::Error(ffi::ErrorCode::kDataLoss, "launch failed");
}
static bool Log(ffi::Error error) { return error.failure(); }
// RUN moved_error {} s64[1]=0 -> !! DATA_LOSS
// RUN moved_error {} s64[1]=1 -> !! DATA_LOSS
// RUN-OURS moved_error {} s64[1]=1 -> !! DATA_LOSS launch failed
static ffi::Error MovedError(ffi::BufferR1<ffi::S64> brief) {
  ffi::Error e = Failed(*brief.typed_data() == 0);
  if (e.failure() && Log(std::move(e))) return e;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(moved_error, MovedError, ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::S64>>());
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

// What an exception says may be nothing
struct Wordless : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
struct WordlessMemory : std::bad_alloc {
  const char* what() const noexcept override { return nullptr; }
};
// RUN-OURS wordless {} s64[1]=0 -> !! INTERNAL a C++ exception: (null)
// RUN-OURS wordless {} s64[1]=1 -> !! RESOURCE_EXHAUSTED out of memory: (null)
static ffi::Error ThrowWordless(ffi::BufferR1<ffi::S64> memory) {
  if (*memory.typed_data() != 0) throw WordlessMemory();
  throw Wordless();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(wordless, ThrowWordless, ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::S64>>());
#if OURS
// RUN-OURS wordless_task from=r1 {} -> !! INTERNAL a C++ exception: (null)
static ffi::Error WordlessTask(ffi::ThreadPool pool) {
  pool.ForEachRange(4, 1, [](int64_t, int64_t) { throw Wordless(); });
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(wordless_task, WordlessTask, ffi::Ffi::Bind().Ctx<ffi::ThreadPool>());
#endif

// A thread may end in a handler: what would catch that has to let it go on. The handler's objects are destroyed.
static int destroyed = 0;
struct Destroyed {
  ~Destroyed() { ++destroyed; }
};
static ffi::Error EndThread() {
  Destroyed object;
  pthread_exit(&destroyed);
}
XLA_FFI_DEFINE_HANDLER(kEndThread, EndThread, ffi::Ffi::Bind());
static ffi::Error IsSo(bool is) { return is ? ffi::Error::Success() : ffi::Error::Internal("not so"); }
static ffi::Error Ended() { return IsSo(destroyed == 1); }
XLA_FFI_DEFINE_HANDLER(kEnded, Ended, ffi::Ffi::Bind());
// RUN ends_its_thread {} -> ==
extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* ends_its_thread(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return kEnded(frame);
  destroyed = 0;
  pthread_t thread;
  void* left = nullptr;
  const auto call = [](void* data) -> void* { return kEndThread(static_cast<XLA_FFI_CallFrame*>(data)); };
  if (pthread_create(&thread, nullptr, call, frame) == 0) pthread_join(thread, &left);
  if (left != &destroyed) destroyed = -1;
  return kEnded(frame);
}

// A pointer to a function may be null, as a std::function may be empty
// RUN-OURS null_function {} -> !! INTERNAL the handler's function is a null pointer
static ffi::Error (*null_function_pointer)() = nullptr;
XLA_FFI_DEFINE_HANDLER_SYMBOL(null_function, null_function_pointer, ffi::Ffi::Bind());
// RUN-OURS null_noexcept {} -> !! INTERNAL the handler's function is a null pointer
static ffi::Error (*null_noexcept_pointer)() noexcept = nullptr;
XLA_FFI_DEFINE_HANDLER_SYMBOL(null_noexcept, null_noexcept_pointer, ffi::Ffi::Bind());
// RUN-OURS null_attribute {n = 1 : i32} -> !! INTERNAL the handler's function is a null pointer
static ffi::Future (*null_attribute_pointer)(int32_t) = nullptr;
XLA_FFI_DEFINE_HANDLER_SYMBOL(null_attribute, null_attribute_pointer, ffi::Ffi::Bind().Attr<int32_t>("n"));
// RUN-OURS null_constant {} -> !! INTERNAL the handler's function is a null pointer
static constexpr ffi::Error (*kNullConstant)() = nullptr;
XLA_FFI_DEFINE_HANDLER_SYMBOL(null_constant, kNullConstant, ffi::Ffi::Bind());
// RUN-OURS null_to {} -> !! INTERNAL the handler's function is a null pointer
static ffi::Error (*null_to_pointer)() = nullptr;
extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* null_to(XLA_FFI_CallFrame* frame) {
  static const auto handler = ffi::Ffi::Bind().To(null_to_pointer);
  return handler->Call(frame);
}
// RUN-OURS empty_function {} -> !! INTERNAL bad_function_call
static std::function<ffi::Error()> empty_std_function;
XLA_FFI_DEFINE_HANDLER_SYMBOL(empty_function, empty_std_function, ffi::Ffi::Bind());
