// Loops that the calling thread and the host's thread pool share. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_LOOP_H_
#define XLA_FFI_SDK_CPP_LOOP_H_

#include "xla_ffi/cpp/error.h"
#include "xla_ffi/platform.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// One loop. It is there for as long as a task of the pool may come: one that comes late finds the gate closed, and
// touches nothing of the caller's.
class Loop {
 public:
  using Body = void (*)(void* f, int64_t begin, int64_t end);

  // Calls `body(f, begin, end)` for ranges of at most `grain` that cover 0 to `count`. Up to `threads` tasks are given to
  // `schedule(function, data)`, which says whether the pool took one. The first exception of a range leaves this when
  // nobody is inside any more.
  template <typename Schedule>
  XLA_FFI_SDK_FN static void Run(int64_t count, int64_t grain, int64_t threads, Body body, void* f,
                                 const Schedule& schedule) {
    if (count <= 0) return;
    threads = std::clamp(threads, int64_t{0}, int64_t{1024});
    if (grain <= 0) grain = (count - 1) / (std::max)(threads * 4, int64_t{1}) + 1;
    const int64_t ranges = (count - 1) / grain + 1;
    int64_t helpers = (std::min)(ranges - 1, threads);
    Loop* const loop =
        helpers > 0 ? new (std::nothrow) Loop(count, grain, ranges, body, f, helpers + 1) : nullptr;
    if (loop == nullptr) {
      for (int64_t range = 0; range != ranges; ++range) {
        body(f, range * grain, range + 1 == ranges ? count : (range + 1) * grain);
      }
      return;
    }
    for (; helpers > 0; --helpers) {
      if (schedule(&Help, loop)) continue;
      loop->Leave(helpers);  // a pool that takes no more
      break;
    }
    loop->Work();
    loop->Close();
#if XLA_FFI_SDK_EXCEPTIONS
    const std::exception_ptr thrown = std::move(loop->thrown_);
    loop->Leave(1);
    if (XLA_FFI_PREDICT_FALSE(thrown != nullptr)) std::rethrow_exception(thrown);
#else
    loop->Leave(1);
#endif
  }

 private:
  static constexpr int64_t kClosed = int64_t{1} << 32;

  XLA_FFI_SDK_FN Loop(int64_t count, int64_t grain, int64_t ranges, Body body, void* f, int64_t users)
      : count_(count), grain_(grain), ranges_(ranges), body_(body), f_(f), users_(users) {}
  XLA_FFI_SDK_FN ~Loop() = default;

  XLA_FFI_SDK_FN static void Help(void* data) {
    Loop* const loop = static_cast<Loop*>(data);
    if (loop->inside_.fetch_add(1, std::memory_order_acq_rel) < kClosed) loop->Work();
    loop->inside_.fetch_sub(1, std::memory_order_acq_rel);
    loop->Leave(1);
  }

  // Takes ranges until none is left, or one of them throws.
  XLA_FFI_SDK_FN void Work() {
    for (;;) {
      const uint64_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= static_cast<uint64_t>(ranges_)) return;
      const auto range = static_cast<int64_t>(next);
      const int64_t begin = range * grain_;
      const int64_t end = range + 1 == ranges_ ? count_ : begin + grain_;
#if XLA_FFI_SDK_EXCEPTIONS
      try {
        body_(f_, begin, end);
      } catch (...) {
        return Fail(std::current_exception());
      }
#else
      body_(f_, begin, end);
#endif
    }
  }

#if XLA_FFI_SDK_EXCEPTIONS
  XLA_FFI_SDK_COLD void Fail(std::exception_ptr thrown) {
    next_.store(static_cast<uint64_t>(ranges_), std::memory_order_relaxed);
    if (!failed_.exchange(true, std::memory_order_relaxed)) thrown_ = std::move(thrown);
  }
#endif

  XLA_FFI_SDK_FN void Close() {
    inside_.fetch_add(kClosed, std::memory_order_acq_rel);
    while (inside_.load(std::memory_order_acquire) != kClosed) XFFI_YIELD_();
  }

  XLA_FFI_SDK_FN void Leave(int64_t users) {
    if (users_.fetch_sub(users, std::memory_order_acq_rel) == users) delete this;
  }

  const int64_t count_, grain_, ranges_;
  const Body body_;
  void* const f_;
  std::atomic<uint64_t> next_{0};  // beyond the ranges by one for each user at the end, which an int64_t may not hold
  std::atomic<int64_t> inside_{0};  // tasks at work; kClosed more when none may begin
  std::atomic<int64_t> users_;      // the caller, and tasks that have not ended
#if XLA_FFI_SDK_EXCEPTIONS
  std::atomic<bool> failed_{false};
  std::exception_ptr thrown_;  // written by the one who fails first, read when the gate is closed
#endif
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_LOOP_H_
