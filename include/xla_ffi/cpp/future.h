// Asynchronous handlers: promises, futures, and their connection to the host. Part of <xla/ffi/api/ffi.h>.
//
// After the handler has returned, only the elements of the buffers stay valid, until the future is complete. The call
// frame, dimensions, attributes and context become invalid, so copy their values.
#ifndef XLA_FFI_SDK_CPP_FUTURE_H_
#define XLA_FFI_SDK_CPP_FUTURE_H_

#include <condition_variable>

#include "xla_ffi/cpp/error.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

class Promise;
class CountDownPromise;

XLA_FFI_SDK_INTERNAL_BEGIN

// Returns a value that identifies the calling thread, on platforms where this takes one instruction. On other
// platforms, returns null.
#if defined(__GNUC__) && defined(__linux__) && defined(__x86_64__) && !defined(__ILP32__)
inline constexpr bool kThreadsHaveNumbers = true;
XLA_FFI_SDK_HOT inline const void* ThisThread() {
  const void* thread;
  __asm__("movq %%fs:0, %0" : "=r"(thread));
  return thread;
}
#elif defined(__GNUC__) && defined(__linux__) && defined(__aarch64__)
inline constexpr bool kThreadsHaveNumbers = true;
XLA_FFI_SDK_HOT inline const void* ThisThread() {
  const void* thread;
  __asm__("mrs %0, tpidr_el0" : "=r"(thread));
  return thread;
}
#else
inline constexpr bool kThreadsHaveNumbers = false;
inline const void* ThisThread() { return nullptr; }
#endif

// The state that promises and their futures share. The state is completed once, and then runs the waiters.
//
// One word contains the reference counts and the status bits, because an atomic operation costs as much as the rest of
// a short call. The last owner deletes the object without an atomic write. Nearly all futures are created on the thread
// that created the state, so that thread initially holds one reference for a future.
//
// Several threads may use promises and futures at once. A waiter runs on the thread that completes the state, or on the
// thread that adds the waiter after completion.
class FutureData {
 public:
  // A function that runs when the state is complete, as a node of a linked list.
  struct Waiter {
    virtual ~Waiter() = default;
    // Called once. Must not throw. May delete the waiter.
    virtual void Run(const std::optional<Error>& error) noexcept = 0;
    Waiter* next = nullptr;
  };

  // Returns a marker that replaces the pointer to a completed state without an error.
  static FutureData* Done() { return reinterpret_cast<FutureData*>(uintptr_t{1}); }
  // Returns true if a pointer refers to a shared state, rather than being Done or null.
  static bool IsShared(const FutureData* data) { return reinterpret_cast<uintptr_t>(data) > 1; }

  void RefPromise() { word_.fetch_add(kPromise, std::memory_order_relaxed); }
  void RefFuture() {
    if (XLA_FFI_PREDICT_TRUE(IsOwner() && granted_)) {
      granted_ = false;
    } else {
      word_.fetch_add(kFuture, std::memory_order_relaxed);
    }
  }
  XLA_FFI_SDK_SLOW void UnrefFuture() { Unref(kFuture); }
  // Releases a future's reference if the state is complete without an error. Returns true if the reference was
  // released.
  bool UnrefReady() {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if (XLA_FFI_PREDICT_FALSE((word & (kDone | kClaimed)) != kDone)) return false;
    if (XLA_FFI_PREDICT_TRUE((word & kCounts) == kFuture)) {
      delete this;
    } else {
      UnrefFuture();
    }
    return true;
  }
  // Releases a promise's reference. If this was the last promise and the state is not complete, completes the state
  // with an error, because no other object could complete it.
  XLA_FFI_SDK_SLOW void UnrefPromise() {
    uint64_t word = word_.load(std::memory_order_acquire);
    while ((word & kPromises) != kPromise) {  // while other promises exist
      if (word_.compare_exchange_weak(word, word - kPromise, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        return;
      }
    }
    if (XLA_FFI_PREDICT_FALSE((word & kDone) == 0)) {
      Complete(Dropped());
    }
    Unref(LastShare());
  }

  bool ready() const { return (word_.load(std::memory_order_acquire) & kDone) != 0; }
  const std::optional<Error>& error() const { return error_; }  // only valid if ready() is true

  // Completes the state with success. Only the first completion has an effect.
  void Complete() {
    uint64_t word = word_.load(std::memory_order_acquire);
    do {
      if ((word & (kDone | kClaimed)) != 0) return;
    } while (!word_.compare_exchange_weak(word, word | kDone, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
    if ((word & kWaiting) != 0) RunWaiters();
  }
  XLA_FFI_SDK_SLOW void Complete(Error error) {
    if ((word_.fetch_or(kClaimed, std::memory_order_acq_rel) & (kDone | kClaimed)) != 0) return;
    error_.emplace(std::move(error));
    if ((word_.fetch_or(kDone, std::memory_order_acq_rel) & kWaiting) != 0) RunWaiters();
  }
  // Completes the state with success. Returns true if this also released the promise's reference.
  bool CompleteAndUnref() {
    uint64_t word = word_.load(std::memory_order_acquire);
    if (XLA_FFI_PREDICT_FALSE(!IsOwner() || (word & kStates) != 0)) return CompleteSlow();
    do {
      const uint64_t share = (word & kPromises) == kPromise ? LastShare() : kPromise;
      if (XLA_FFI_PREDICT_FALSE((word & kCounts) == share)) {
        delete this;
        return true;
      }
      if (XLA_FFI_PREDICT_TRUE(word_.compare_exchange_weak(word, (word | kDone) - share,
                                                           std::memory_order_acq_rel,
                                                           std::memory_order_acquire))) {
        return true;
      }
    } while ((word & kStates) == 0);
    return CompleteSlow();
  }

  // Adds a waiter, which runs when the state is complete.
  XLA_FFI_SDK_SLOW void Add(Waiter* waiter) {
    waiter->next = waiters_.load(std::memory_order_relaxed);
    while (!waiters_.compare_exchange_weak(waiter->next, waiter, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
    }
    if ((word_.fetch_or(kWaiting, std::memory_order_acq_rel) & kDone) != 0) RunWaiters();
  }

 private:
  static constexpr uint64_t kDone = 1;     // the state is complete; `error_` no longer changes
  static constexpr uint64_t kClaimed = 2;  // `error_` is being written
  static constexpr uint64_t kWaiting = 4;  // a waiter was added
  static constexpr uint64_t kStates = kDone | kClaimed | kWaiting;
  static constexpr uint64_t kPromise = uint64_t{1} << 8;
  static constexpr uint64_t kFuture = uint64_t{1} << 36;
  static constexpr uint64_t kPromises = kFuture - kPromise;
  static constexpr uint64_t kCounts = ~(kPromise - 1);


  bool IsOwner() const { return kThreadsHaveNumbers && ThisThread() == owner_; }
  // Returns the references that the last promise releases: the promise's reference and, if no future was created, the
  // reference that the owner thread holds for a future.
  uint64_t LastShare() const { return granted_ ? kPromise + kFuture : kPromise; }

  XLA_FFI_SDK_SLOW void Unref(uint64_t share) {
    if ((word_.load(std::memory_order_acquire) & kCounts) == share ||
        (word_.fetch_sub(share, std::memory_order_acq_rel) & kCounts) == share) {
      delete this;
    }
  }
  // If memory is exhausted, the long error text is replaced by a short text.
  XLA_FFI_SDK_COLD static Error Dropped() noexcept {
    Error error(ErrorCode::kInternal, "promise dropped");
    Contain("the text of an error", [&error] {
      error = Error(ErrorCode::kInternal, "a promise was dropped before it was completed");
    });
    return error;
  }
  XLA_FFI_SDK_SLOW bool CompleteSlow() {
    Complete();
    return false;
  }
  XLA_FFI_SDK_SLOW void RunWaiters() {
    Waiter* list = waiters_.exchange(nullptr, std::memory_order_acq_rel);
    while (list != nullptr) {
      Waiter* const waiter = std::exchange(list, list->next);
      waiter->Run(error_);
    }
  }

  std::atomic<uint64_t> word_{kThreadsHaveNumbers ? kPromise + kFuture : kPromise};
  std::atomic<Waiter*> waiters_{nullptr};
  const void* const owner_ = ThisThread();
  // Whether a future's reference is still held in advance. Only used by the owner thread, and by the destructor of the
  // last promise.
  bool granted_ = kThreadsHaveNumbers;
  std::optional<Error> error_;
};

template <typename F>
struct FunctionWaiter final : FutureData::Waiter {
  template <typename G>
  explicit FunctionWaiter(G&& g) : f(std::forward<G>(g)) {}
  // Exceptions are contained, because other waiters, including a waiter that notifies the host, must still run, and the
  // caller may be a destructor.
  void Run(const std::optional<Error>& error) noexcept override {
    Contain("a function that waited for a future", [&] { f(error); });
    DestroyContained(this);
  }
  F f;
};

XLA_FFI_SDK_INTERNAL_END

// The result of an asynchronous handler, which becomes ready when its promise is completed.
class XLA_FFI_SDK_TYPE Future {
 public:
  XLA_FFI_SDK_FN explicit inline Future(const Promise& promise);
  XLA_FFI_SDK_FN explicit inline Future(const CountDownPromise& promise);
  XLA_FFI_SDK_FN Future(Future&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  XLA_FFI_SDK_FN Future& operator=(Future&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  XLA_FFI_SDK_FN ~Future() {
    if (internal::FutureData::IsShared(data_)) data_->UnrefFuture();
  }

  // Calls `f(const std::optional<Error>&)` when the future is ready: immediately if it is ready now, otherwise on the
  // thread that completes the promise. On that thread, an exception from `f` is only reported on stderr.
  template <typename F>
  XLA_FFI_SDK_FN void OnReady(F&& f) {
    static_assert(std::is_invocable_v<F, const std::optional<Error>&>,
                  "the function has to take `const std::optional<Error>&`");
    if (data_ == nullptr) return;
    if (data_ == internal::FutureData::Done()) {
      const std::optional<Error> none;
      std::forward<F>(f)(none);
    } else if (data_->ready()) {
      std::forward<F>(f)(data_->error());
    } else {
      data_->Add(new internal::FunctionWaiter<std::decay_t<F>>(std::forward<F>(f)));
    }
  }

 private:
  template <ExecutionStage, typename>
  friend struct ResultEncoding;
  internal::FutureData* data_;
};

// Completes its future once; later completions have no effect. Copies share one state. If the last copy is destroyed
// before completion, the future gets an INTERNAL error.
class XLA_FFI_SDK_TYPE Promise {
 public:
  XLA_FFI_SDK_FN Promise() : data_(new internal::FutureData) {}
  XLA_FFI_SDK_FN Promise(const Promise& other) : data_(other.data_) {
    if (internal::FutureData::IsShared(data_)) data_->RefPromise();
  }
  XLA_FFI_SDK_FN Promise(Promise&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  XLA_FFI_SDK_FN Promise& operator=(Promise other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  XLA_FFI_SDK_FN ~Promise() {
    if (internal::FutureData::IsShared(data_)) data_->UnrefPromise();
  }

  XLA_FFI_SDK_FN void SetAvailable() {
    if (!internal::FutureData::IsShared(data_)) return;
    if (data_->CompleteAndUnref()) data_ = internal::FutureData::Done();
  }
  // Completes the future with an error. If `error` is a success, has the same effect as SetAvailable.
  XLA_FFI_SDK_FN void SetError(Error error) {
    if (!internal::FutureData::IsShared(data_)) return;
    if (error.success()) {
      data_->Complete();
    } else {
      data_->Complete(std::move(error));
    }
  }

 private:
  friend class Future;
  friend class CountDownPromise;
  internal::FutureData* data_;
};

// A promise that is completed after a number of count-downs. If any count-down had an error, the promise is completed
// with an error. Copies share the count.
class XLA_FFI_SDK_TYPE CountDownPromise {
 public:
  XLA_FFI_SDK_FN CountDownPromise() = default;
  XLA_FFI_SDK_FN CountDownPromise(const CountDownPromise& other) : state_(other.state_) {
    if (state_ != nullptr) state_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  XLA_FFI_SDK_FN CountDownPromise(CountDownPromise&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  XLA_FFI_SDK_FN CountDownPromise& operator=(CountDownPromise other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  XLA_FFI_SDK_FN ~CountDownPromise() {
    if (state_ != nullptr && state_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state_;
  }
  // Sets the number of count-downs. A count of zero or less completes the promise immediately.
  XLA_FFI_SDK_FN CountDownPromise(Promise promise, int64_t count)
      : state_(new State(std::move(promise), count)) {
    // SetError is used, because SetAvailable would modify the promise, which copies may read at the same time.
    if (count <= 0) state_->promise.SetError(Error::Success());
  }
  XLA_FFI_SDK_FN explicit CountDownPromise(int64_t count) : CountDownPromise(Promise(), count) {}

  // Counts down by `count`. Returns true if this call completed the promise.
  XLA_FFI_SDK_FN bool CountDown(size_t count, const Error& error = Error::Success()) {
    if (state_ == nullptr) return false;
    if (XLA_FFI_PREDICT_FALSE(error.failure())) {
      std::lock_guard<std::mutex> lock(state_->mutex);
      // If memory is exhausted, the text of the error is replaced by "out of memory".
      state_->error = Error(*error.errc(), "out of memory");
      internal::Contain("the text of an error", [&] { state_->error = error; });
    }
    const auto step = static_cast<int64_t>(count);
    const int64_t before = state_->count.fetch_sub(step, std::memory_order_acq_rel);
    if (XLA_FFI_PREDICT_TRUE(before <= 0 || before > step)) return false;
    Error last;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      last = std::move(state_->error);
    }
    state_->promise.SetError(std::move(last));
    return true;
  }
  XLA_FFI_SDK_FN bool CountDown(Error error = Error::Success()) { return CountDown(1, error); }

 private:
  friend class Future;
  struct State {
    XLA_FFI_SDK_FN State(Promise whole, int64_t parts)
        : promise(std::move(whole)), count(parts) {}
    XLA_FFI_SDK_FN ~State() = default;
    Promise promise;
    std::atomic<int64_t> count;
    std::mutex mutex;
    Error error;
    std::atomic<int64_t> uses{1};
  };
  // Reference-counted without std::shared_ptr, which would increase the compile time of every file with handlers.
  State* state_ = nullptr;
};

inline Future::Future(const Promise& promise) : data_(promise.data_) {
  if (internal::FutureData::IsShared(data_)) data_->RefFuture();
}

inline Future::Future(const CountDownPromise& promise) : data_(nullptr) {
  if (promise.state_ != nullptr) data_ = promise.state_->promise.data_;
  if (internal::FutureData::IsShared(data_)) data_->RefFuture();
}

XLA_FFI_SDK_INTERNAL_BEGIN

// Notifies the host that an asynchronous call is complete. If the notification fails, prints the error to stderr.
XLA_FFI_SDK_FN inline void SignalHost(const Caller& caller, XLA_FFI_Future* future,
                                      const std::optional<Error>& result) {
  const FutureFunctions functions(caller.api);
  XLA_FFI_Error* error;
  if (XLA_FFI_PREDICT_FALSE(result.has_value())) {
    XLA_FFI_Future_SetError_Args args{};
    args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
    args.future = future;
    args.error = CreateError(caller, *result);
    error = functions.set_error(&args);
  } else {
    XLA_FFI_Future_SetAvailable_Args args{};
    args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
    args.future = future;
    error = functions.set_available(&args);
  }
  if (XLA_FFI_PREDICT_FALSE(error != nullptr)) {
    Text text;
    std::fprintf(stderr, "XLA FFI: a future was not completed: %s\n",
                 PutError(text, caller.api, error).c_str());
  }
}

// A waiter that notifies the host of the end of an asynchronous call.
struct HostWaiter final : FutureData::Waiter {
  explicit HostWaiter(const Caller& of) : caller(of) {}
  void Run(const std::optional<Error>& result) noexcept override {
    SignalHost(caller, future, result);
    delete this;
  }
  const Caller caller;
  XLA_FFI_Future* future = nullptr;
};

// Returns a new future of the host for a pending call; null if the host has no futures or memory is exhausted.
XLA_FFI_SDK_FN inline XLA_FFI_Future* MakeHostFuture(const Caller& caller, FutureData* data) {
  const FutureFunctions functions(caller.api);
  if (!functions) return nullptr;
  // The waiter is created first, because a future of the host cannot be released.
  auto* const waiter = new (std::nothrow) HostWaiter(caller);
  if (waiter == nullptr) return nullptr;
  // XLA_FFI_Future_Create expects struct_size 16, and writes `future` after those 16 bytes.
  XLA_FFI_Future_Create_Args args{};
  args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
  if (XLA_FFI_Error* error = functions.create(&args)) {
    DestroyError(caller.api, error);
    delete waiter;
    return nullptr;
  }
  waiter->future = args.future;
  data->Add(waiter);
  return args.future;
}

// A waiter that wakes a thread.
struct ThreadWaiter final : FutureData::Waiter {
  void Run(const std::optional<Error>&) noexcept override {
    std::lock_guard<std::mutex> lock(mutex);
    ready = true;
    changed.notify_one();
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
};

// Waits until the future is ready, without allocating memory, and returns its error. A template, so that files without
// asynchronous handlers do not compile this function.
template <typename Data>
XLA_FFI_SDK_COLD XLA_FFI_Error* AwaitFuture(const Caller& caller, Data* data) {
  ThreadWaiter waiter;
  data->Add(&waiter);
  std::unique_lock<std::mutex> lock(waiter.mutex);
  waiter.changed.wait(lock, [&] { return waiter.ready; });
  return data->error().has_value() ? CreateError(caller, *data->error()) : nullptr;
}

XLA_FFI_SDK_INTERNAL_END

// Encodes a Future as an asynchronous result. The result is synchronous if the future is already ready. If the host
// (before r2) or the stage does not support futures, the handler waits for the future.
template <ExecutionStage stage>
struct ResultEncoding<stage, Future> {
  template <typename Encoded = std::variant<XLA_FFI_Error*, XLA_FFI_Future*>>
  XLA_FFI_SDK_FN static Encoded Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext*, Future future) {
    const internal::Answer answer = EncodeAnswer({api}, std::move(future));
    if (answer.future != nullptr) return answer.future;
    return answer.error;
  }

  // Encodes the result of a handler of the SDK. The error's message names the handler.
  XLA_FFI_SDK_HOT static internal::Answer EncodeAnswer(const internal::Caller& caller, Future&& future) {
    internal::FutureData* const data = future.data_;
    if (data == internal::FutureData::Done()) return {};
    if (XLA_FFI_PREDICT_TRUE(data != nullptr) && data->UnrefReady()) {
      future.data_ = nullptr;
      return {};
    }
    return Wait(caller, future);
  }

 private:
  XLA_FFI_SDK_SLOW static internal::Answer Wait(const internal::Caller& caller, Future& future) {
    if (future.data_ == nullptr) {
      return {internal::CreateError(caller, Error::Internal("a future without a promise was returned")), nullptr};
    }
    if (future.data_->ready()) {
      // The future may have become ready after EncodeAnswer checked it.
      const std::optional<Error>& error = future.data_->error();
      return {error.has_value() ? internal::CreateError(caller, *error) : nullptr, nullptr};
    }
    if constexpr (stage == ExecutionStage::kExecute) {
      if (XLA_FFI_Future* const made = internal::MakeHostFuture(caller, future.data_)) return {nullptr, made};
    }
    // Wait even after an error, because the handler's work uses the operands, which the host may free when the call
    // fails.
    return {internal::AwaitFuture(caller, future.data_), nullptr};
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_FUTURE_H_
