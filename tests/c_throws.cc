// Handlers of the C headers in C++ that throw: tests/c_promises.rs calls them.
#include <pthread.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "xla_ffi/handler.h"
#include "xla_ffi/legacy.h"

// What is thrown: 0 nothing, 1 an exception, 2 a number, 3 a text, 4 that there is no memory, 5 an exception before
// xffi_decoded, 6 one behind a promise that a thread completes, 7 one behind a promise that was returned, 8 and 9 what has
// no words.
struct Wordless : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
struct WordlessMemory : std::bad_alloc {
  const char* what() const noexcept override { return nullptr; }
};
static XLA_FFI_Error* Throw(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const int32_t what = xffi_attr_i32(call, "what");
  if (what == 5) throw std::runtime_error("early");
  if (XLA_FFI_Error* error = xffi_decoded(call)) return error;
  *static_cast<int32_t*>(y.data) = 7;
  if (what == 1) throw std::runtime_error("too " + std::string("bad"));
  if (what == 2) throw 1;
  if (what == 3) throw "words";
  if (what == 4) throw std::bad_alloc();
  if (what == 8) throw Wordless();
  if (what == 9) throw WordlessMemory();
  if (what < 6) return nullptr;
  xffi_promise* const promise = xffi_promise_new(call);
  if (what == 6) {
    std::thread([promise] { xffi_promise_done(promise); }).join();
    throw std::runtime_error("behind a promise");
  }
  XLA_FFI_Error* const error = xffi_promise_return(call, promise);
  xffi_promise_done(promise);
  if (error != nullptr) return error;
  throw std::runtime_error("behind a future");
}
XFFI_HANDLER(throws, Throw);

// Functions of the original custom calls that throw the same.
template <int kWhat>
static void Legacy(void* out, const void** in) {
  static_cast<void>(in);
  if (out == nullptr) return;
  if (kWhat == 3) throw "words";
  if (kWhat == 8) throw Wordless();
  throw WordlessMemory();
}
template <int kWhat>
static xffi_legacy_adapter Adapter() {
  xffi_legacy_adapter adapter{};
  adapter.signature = XFFI_LEGACY_CPU;
  adapter.function = reinterpret_cast<void (*)()>(Legacy<kWhat>);
  return adapter;
}
static const xffi_legacy_adapter words = Adapter<3>();
static const xffi_legacy_adapter wordless = Adapter<8>();
static const xffi_legacy_adapter memory = Adapter<9>();
XFFI_ADAPT(words_legacy, words);
XFFI_ADAPT(wordless_legacy, wordless);
XFFI_ADAPT(memory_legacy, memory);

static XLA_FFI_Error* (*nothing)(xffi_call*) = nullptr;
XFFI_HANDLER(has_no_function, nothing);

// A handler whose thread ends: another's, which is waited for.
static int32_t ended;
static XLA_FFI_Error* End(xffi_call* call) {
  struct Object {
    ~Object() { ++ended; }
  } object;
  static_cast<void>(call);
  pthread_exit(&ended);
}
extern "C" XLA_FFI_Error* ends(XLA_FFI_CallFrame* frame);
XFFI_HANDLER(ends, End);
static XLA_FFI_Error* Ended(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  if (XLA_FFI_Error* error = xffi_decoded(call)) return error;
  *static_cast<int32_t*>(y.data) = ended;
  return nullptr;
}
XFFI_HANDLER(has_ended, Ended);
XFFI_EXPORT XLA_FFI_Error* ends_its_thread(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) return has_ended(frame);
  pthread_t thread;
  void* left = nullptr;
  ended = 0;
  const auto run = [](void* data) -> void* { return ends(static_cast<XLA_FFI_CallFrame*>(data)); };
  if (pthread_create(&thread, nullptr, run, frame) == 0) pthread_join(thread, &left);
  if (left != &ended) ended = -1;
  return has_ended(frame);
}
