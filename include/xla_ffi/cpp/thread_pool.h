// The thread pool of the host, and loops whose ranges the calling thread and the pool share. Part of
// <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_THREAD_POOL_H_
#define XLA_FFI_SDK_CPP_THREAD_POOL_H_

#include "xla_ffi/cpp/context.h"
#include "xla_ffi/platform.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The state of one loop, which its last user deletes: the caller or a pool task. A task that starts after the loop has
// ended finds kClosed in `inside_`, and uses no data of the caller.
class Loop {
 public:
  using Body = void (*)(void* f, int64_t begin, int64_t end);

  // Calls `body(f, begin, end)` for ranges of at most `grain` elements that together cover 0 to `count`. Passes up to
  // `threads` tasks to `schedule(function, data)`, which returns true if the pool accepted the task. If a range throws,
  // rethrows the first exception after all threads have left the loop.
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
      loop->Leave(helpers);  // the pool accepts no more tasks, so the remaining helpers do not start
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

  // Runs ranges until all are started or a range throws.
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
  std::atomic<uint64_t> next_{0};  // may exceed the number of ranges by one per user; unsigned, so it cannot overflow
  std::atomic<int64_t> inside_{0};  // number of running tasks, plus kClosed once no task may start
  std::atomic<int64_t> users_;      // number of users: the caller, and the tasks that have not ended
#if XLA_FFI_SDK_EXCEPTIONS
  std::atomic<bool> failed_{false};
  std::exception_ptr thrown_;  // written by the first thread that fails, read after all threads have left
#endif
};

XLA_FFI_SDK_INTERNAL_END
// The thread pool of the host. Available from r1 on; its size from r3 on. Tasks run on other threads if the pool has
// any. Handlers that wait for their tasks need a pool of at least two threads, or ForEachRange.
class XLA_FFI_SDK_TYPE ThreadPool {
 public:
  // Runs `f()` on the pool, or on the calling thread if the pool refuses the task. An exception, even from the
  // destructor of `f`, ends only the task.
  template <typename F>
  XLA_FFI_SDK_FN void Schedule(F&& f) {
    using Task = std::decay_t<F>;
    XLA_FFI_Task* run = +[](void* data) {
      Task* const task = static_cast<Task*>(data);
      internal::Contain("a task on the thread pool", *task);
      internal::DestroyContained(task);
    };
    void* const data = new Task(std::forward<F>(f));
    if (XLA_FFI_PREDICT_FALSE(!Put(run, data))) run(data);
  }

  // Calls `f(begin, end)` for ranges of at most `grain` elements that together cover 0 to `count`, each once. The
  // calling thread and the pool share the work. The function returns when all ranges are done, and waits only for
  // ranges that other threads have started. It therefore works even if the pool has only one thread, or runs its tasks
  // late or never.
  //
  // With a `grain` of 0 or less, each thread gets about four ranges. `f` is called from several threads at once. If `f`
  // throws, the first exception is rethrown after all started ranges are done. XLA's header does not have this
  // function.
  template <typename F>
  XLA_FFI_SDK_FN void ForEachRange(int64_t count, int64_t grain, F&& f) const {
    auto range = [&f](int64_t begin, int64_t end) { f(begin, end); };
    const auto body = [](void* function, int64_t begin, int64_t end) {
      (*static_cast<decltype(range)*>(function))(begin, end);
    };
    const auto schedule = [this](XLA_FFI_Task* task, void* data) { return Put(task, data); };
    // Hosts before r3 do not report the number of threads. If the number is too high, surplus tasks find no work and
    // end.
    const bool told = internal::HostRevision(api_) >= XLA_FFI_SDK_SINCE(THREAD_POOL_SIZE);
    internal::Loop::Run(count, grain, told ? num_threads() : 16, body, &range, schedule);
  }

  // Returns the number of threads; 0 if the host does not report it.
  XLA_FFI_SDK_FN int64_t num_threads() const {
    int64_t count = 0;
    // Before r3, hosts lack this function, and r2 has a different function at its position.
    if (internal::HostRevision(api_) < XLA_FFI_SDK_SINCE(THREAD_POOL_SIZE)) return count;
    auto args = internal::ContextArgs<XLA_FFI_ThreadPool_NumThreads_Args>(
        ctx_, XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE);
    args.num_threads = &count;
    XLA_FFI_Error* error = XLA_FFI_SDK_ASK(api_, XLA_FFI_ThreadPool_NumThreads, &args);
    if (XLA_FFI_PREDICT_FALSE(error != nullptr)) {
      internal::DestroyError(api_, error);
      return 0;
    }
    return count;
  }

 private:
  friend struct CtxDecoding<ThreadPool>;
  XLA_FFI_SDK_HOT ThreadPool(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx)
      : api_(api), ctx_(ctx) {}

  // Passes a task to the pool. Returns false if the pool refuses the task.
  XLA_FFI_SDK_FN bool Put(XLA_FFI_Task* task, void* data) const {
    auto args = internal::ContextArgs<XLA_FFI_ThreadPool_Schedule_Args>(
        ctx_, XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE);
    args.task = task;
    args.data = data;
    XLA_FFI_Error* error = api_->XLA_FFI_ThreadPool_Schedule(&args);
    if (error != nullptr) internal::DestroyError(api_, error);
    return error == nullptr;
  }

  const XLA_FFI_Api* api_;
  XLA_FFI_InvokeContext* ctx_;
};

template <>
struct CtxDecoding<ThreadPool> {
  using Type = ThreadPool;
  template <typename Decoded = Type>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(internal::HostMinor(api) < 1 ||
                              api->XLA_FFI_ThreadPool_Schedule == nullptr)) {
      return internal::DiagnoseMissingFeature(diagnostic, api, XLA_FFI_SDK_FEATURE(THREAD_POOL));
    }
    return ThreadPool(api, ctx);
  }
};

// Context tag: binds the number of threads in the pool, an int64_t. If the host does not report the number, decoding
// fails, whereas ThreadPool::num_threads returns 0. Available from r3 on.
struct ThreadPoolSize {};

template <>
struct CtxDecoding<ThreadPoolSize> {
  using Type = int64_t;
  template <typename Decoded = int64_t>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                       XLA_FFI_InvokeContext* ctx,
                                                       DiagnosticEngine& diagnostic) {
    int64_t count = 0;
    auto args = internal::ContextArgs<XLA_FFI_ThreadPool_NumThreads_Args>(
        ctx, XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE);
    args.num_threads = &count;
    // Before r3, hosts lack this function, and r2 has a different function at its position.
    const bool has = internal::HostRevision(api) >= XLA_FFI_SDK_SINCE(THREAD_POOL_SIZE);
    if (!internal::CallHost(api, has ? api->XLA_FFI_ThreadPool_NumThreads : nullptr, &args,
                           XLA_FFI_SDK_FEATURE(THREAD_POOL_SIZE), diagnostic)) {
      return std::nullopt;
    }
    return count;
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

template <>
inline constexpr Revision ctx_floor_v<ThreadPool> = XLA_FFI_SDK_SINCE(THREAD_POOL);
template <>
inline constexpr Revision ctx_floor_v<ThreadPoolSize> = XLA_FFI_SDK_SINCE(THREAD_POOL_SIZE);

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_THREAD_POOL_H_
