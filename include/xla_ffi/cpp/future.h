// Asynchronous handlers: promises, futures and their way to the host. Part of
// <xla/ffi/api/ffi.h>.
//
// Only the memory behind the buffers' data pointers stays until the future is complete. The frame,
// the dimensions, the attributes and the context end with the call: copy what you need first.
#ifndef XLA_FFI_SDK_CPP_FUTURE_H_
#define XLA_FFI_SDK_CPP_FUTURE_H_

#include <condition_variable>

#include "xla_ffi/cpp/error.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

class Promise;
class CountDownPromise;

XLA_FFI_SDK_INTERNAL_BEGIN

// What a promise and its futures share. It is completed once; whoever waits is called then.
class FutureData {
 public:
  // A function that waits, in a list.
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void Run(const std::optional<Error>& error) = 0;
    Waiter* next = nullptr;
  };

  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  void RefPromise() { promises_.fetch_add(1, std::memory_order_relaxed); }
  // The last promise that goes away without a word is an error: nobody could complete it any more.
  void UnrefPromise() {
    if (promises_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !ready()) Drop();
    Unref();
  }

  bool ready() const { return waiters_.load(std::memory_order_acquire) == Done(); }
  const std::optional<Error>& error() const { return error_; }  // once it is ready

  // The first completion counts.
  bool Complete(std::optional<Error> error) {
    if (claimed_.exchange(true, std::memory_order_acq_rel)) return false;
    error_ = std::move(error);
    Waiter* list = waiters_.exchange(Done(), std::memory_order_acq_rel);
    while (list != nullptr) {
      std::unique_ptr<Waiter> waiter(std::exchange(list, list->next));
      waiter->Run(error_);
    }
    return true;
  }

  // Runs the waiter when the data is ready, here and now if it is.
  void Add(std::unique_ptr<Waiter> waiter) {
    Waiter* list = waiters_.load(std::memory_order_acquire);
    while (list != Done()) {
      waiter->next = list;
      if (waiters_.compare_exchange_weak(list, waiter.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        static_cast<void>(waiter.release());
        return;
      }
    }
    waiter->Run(error_);
  }

 private:
  ~FutureData() {
    Waiter* list = waiters_.load(std::memory_order_acquire);
    while (list != nullptr && list != Done()) delete std::exchange(list, list->next);
  }
  XLA_FFI_SDK_COLD void Drop() {
    Complete(Error(ErrorCode::kInternal, "a promise was dropped before it was completed"));
  }
  static Waiter* Done() {
    static char done;
    return reinterpret_cast<Waiter*>(&done);
  }

  std::atomic<int> refs_{1};
  std::atomic<int> promises_{1};
  std::atomic<bool> claimed_{false};
  std::atomic<Waiter*> waiters_{nullptr};
  std::optional<Error> error_;
};

template <typename F>
struct FunctionWaiter final : FutureData::Waiter {
  template <typename G>
  explicit FunctionWaiter(G&& g) : f(std::forward<G>(g)) {}
  void Run(const std::optional<Error>& error) override { f(error); }
  F f;
};

XLA_FFI_SDK_INTERNAL_END

// Becomes ready when its promise is completed.
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
    if (data_ != nullptr) data_->Unref();
  }

  // Calls `f(const std::optional<Error>&)` when the future is ready: here if it is already, else on
  // the thread that completes the promise.
  template <typename F>
  XLA_FFI_SDK_FN void OnReady(F&& f) {
    static_assert(std::is_invocable_v<F, const std::optional<Error>&>,
                  "the function has to take `const std::optional<Error>&`");
    if (data_ == nullptr) return;
    if (data_->ready()) {
      std::forward<F>(f)(data_->error());
    } else {
      data_->Add(
          std::make_unique<internal::FunctionWaiter<std::decay_t<F>>>(std::forward<F>(f)));
    }
  }

 private:
  template <ExecutionStage, typename>
  friend struct ResultEncoding;
  internal::FutureData* data_;
};

// Completes its future, once; a second completion does nothing. Copies are one promise. When the
// last goes away before completion the future gets an INTERNAL error.
class XLA_FFI_SDK_TYPE Promise {
 public:
  XLA_FFI_SDK_FN Promise() : data_(new internal::FutureData) {}
  XLA_FFI_SDK_FN Promise(const Promise& other) : data_(other.data_) {
    if (data_ == nullptr) return;
    data_->Ref();
    data_->RefPromise();
  }
  XLA_FFI_SDK_FN Promise(Promise&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  XLA_FFI_SDK_FN Promise& operator=(Promise other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  XLA_FFI_SDK_FN ~Promise() {
    if (data_ != nullptr) data_->UnrefPromise();
  }

  XLA_FFI_SDK_FN void SetAvailable() {
    if (data_ != nullptr) data_->Complete(std::nullopt);
  }
  // A successful Error completes like SetAvailable.
  XLA_FFI_SDK_FN void SetError(Error error) {
    if (data_ == nullptr) return;
    if (error.success()) {
      data_->Complete(std::nullopt);
    } else {
      data_->Complete(std::move(error));
    }
  }

 private:
  friend class Future;
  internal::FutureData* data_;
};

// A promise that is completed by a number of count-downs, with an error if one had an error. Copies
// count together.
class XLA_FFI_SDK_TYPE CountDownPromise {
 public:
  XLA_FFI_SDK_FN CountDownPromise() = default;
  XLA_FFI_SDK_DEFAULTS(CountDownPromise);
  // A count of zero or less completes at once.
  XLA_FFI_SDK_FN CountDownPromise(Promise promise, int64_t count)
      : state_(std::make_shared<State>(std::move(promise), count)) {
    if (count <= 0) state_->promise.SetAvailable();
  }
  XLA_FFI_SDK_FN explicit CountDownPromise(int64_t count) : CountDownPromise(Promise(), count) {}

  // Counts down; true where this completed the promise.
  XLA_FFI_SDK_FN bool CountDown(size_t count, const Error& error = Error::Success()) {
    if (state_ == nullptr) return false;
    if (XLA_FFI_PREDICT_FALSE(error.failure())) {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->error = error;
    }
    const auto step = static_cast<int64_t>(count);
    const int64_t before = state_->count.fetch_sub(step, std::memory_order_acq_rel);
    if (XLA_FFI_PREDICT_TRUE(before <= 0 || before > step)) return false;
    Error last;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      last = state_->error;
    }
    state_->promise.SetError(std::move(last));
    return true;
  }
  XLA_FFI_SDK_FN bool CountDown(Error error = Error::Success()) { return CountDown(1, error); }

 private:
  friend class Future;
  struct State {
    XLA_FFI_SDK_FN State(Promise promise, int64_t count)
        : promise(std::move(promise)), count(count) {}
    XLA_FFI_SDK_FN ~State() = default;
    Promise promise;
    std::atomic<int64_t> count;
    std::mutex mutex;
    Error error;
  };
  std::shared_ptr<State> state_;
};

inline Future::Future(const Promise& promise) : data_(promise.data_) {
  if (data_ != nullptr) data_->Ref();
}

inline Future::Future(const CountDownPromise& promise) : data_(nullptr) {
  if (promise.state_ != nullptr) data_ = promise.state_->promise.data_;
  if (data_ != nullptr) data_->Ref();
}

XLA_FFI_SDK_INTERNAL_BEGIN

// Tells the host that an asynchronous call is complete. Nobody is left to hear of a failure.
XLA_FFI_SDK_FN inline void SignalHost(const XLA_FFI_Api* api, XLA_FFI_Future* future,
                                      const std::optional<Error>& result) {
  const FutureFunctions functions(api);
  XLA_FFI_Error* error;
  if (XLA_FFI_PREDICT_FALSE(result.has_value())) {
    XLA_FFI_Future_SetError_Args args{};
    args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
    args.future = future;
    args.error = CreateError(api, *result);
    error = functions.set_error(&args);
  } else {
    XLA_FFI_Future_SetAvailable_Args args{};
    args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
    args.future = future;
    error = functions.set_available(&args);
  }
  if (XLA_FFI_PREDICT_FALSE(error != nullptr)) {
    std::fprintf(stderr, "XLA FFI: a future was not completed: %s\n",
                 TakeErrorMessage(api, error).c_str());
  }
}

// Hosts without futures: the call lasts until the future is ready.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* AwaitFuture(const XLA_FFI_Api* api, Future future) {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  XLA_FFI_Error* error = nullptr;
  future.OnReady([&](const std::optional<Error>& result) {
    if (result.has_value()) error = CreateError(api, *result);
    std::lock_guard<std::mutex> lock(mutex);
    ready = true;
    changed.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return ready; });
  return error;
}

XLA_FFI_SDK_INTERNAL_END

// An asynchronous result; a synchronous one where the future is ready already or the host has no
// futures (r0, r1).
template <ExecutionStage stage>
struct ResultEncoding<stage, Future> {
  XLA_FFI_SDK_FN static std::variant<XLA_FFI_Error*, XLA_FFI_Future*> Encode(
      const XLA_FFI_Api* api, XLA_FFI_InvokeContext*, Future future) {
    if (future.data_ == nullptr) {
      return internal::NewError(api, XLA_FFI_Error_Code_INTERNAL,
                                "a future without a promise was returned");
    }
    const internal::FutureFunctions functions(api);
    if (XLA_FFI_PREDICT_FALSE(!functions)) return internal::AwaitFuture(api, std::move(future));
    // Future_Create expects struct_size 16 and writes `future` behind it.
    XLA_FFI_Future_Create_Args args{};
    args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
    if (XLA_FFI_Error* error = functions.create(&args)) return error;
    XLA_FFI_Future* const host_future = args.future;
    future.OnReady([api, host_future](const std::optional<Error>& result) {
      internal::SignalHost(api, host_future, result);
    });
    return host_future;
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_FUTURE_H_
