// Tests of futures and promises. Comments name the corresponding upstream tests. See operands.cc for the syntax of RUN
// lines.
#include "common.h"

// Upstream's FutureSetAvailable and FutureSetError; a future that is created after its promise was completed
// RUN future_set {} -> == 
SELF_TEST(future_set) {
  ffi::Promise promise;
  ffi::Future future(promise);
  int called = 0;
  future.OnReady([&](const std::optional<ffi::Error>& e) { called += e.has_value() ? 10 : 1; });
  EXPECT(called == 0);
  promise.SetAvailable();
  EXPECT(called == 1);
  future.OnReady([&](const std::optional<ffi::Error>& e) { called += e.has_value() ? 10 : 1; });
  EXPECT(called == 2);

  ffi::Promise late;
  late.SetError(ffi::Error::Internal("oops"));
  ffi::Future failed(late);
  std::string message;
  failed.OnReady([&](const std::optional<ffi::Error>& e) { message = e->message(); });
  EXPECT(message == "oops");
  return ffi::Error::Success();
}

// Futures that are moved and stored in std::optional; mutable callbacks that own a promise
// RUN future_kept {} -> ==
SELF_TEST(future_kept) {
  std::optional<ffi::Future> kept;
  ffi::Promise first, second;
  kept.emplace(ffi::Future(first));
  ffi::Future moved = *std::move(kept);
  kept.reset();
  ffi::Future chained(second);
  moved.OnReady([second = std::move(second)](const std::optional<ffi::Error>&) mutable {
    second.SetAvailable();
  });
  bool done = false;
  chained.OnReady([&](const std::optional<ffi::Error>& e) { done = !e.has_value(); });
  EXPECT(!done);
  first.SetAvailable();
  EXPECT(done);
  return ffi::Error::Success();
}

// Upstream's FutureSetAvailableFromThreadPool (happens-before), FutureSetErrorFromThreadPool and FutureRace
// RUN future_race {} -> ==
SELF_TEST(future_race) {
  for (int round = 0; round < 200; ++round) {
    ffi::Promise promise;
    ffi::Future future(promise);
    int payload = 0;
    std::atomic<int> seen{-1};
    std::thread setter([promise, &payload, round]() mutable {
      payload = round + 1;
      if (round % 2 == 0) {
        promise.SetAvailable();
      } else {
        promise.SetError(ffi::Error::Internal("odd"));
      }
    });
    future.OnReady([&](const std::optional<ffi::Error>& e) {
      seen = e.has_value() == (round % 2 == 1) ? payload : -2;
    });
    setter.join();
    EXPECT(seen == round + 1);
  }
  return ffi::Error::Success();
}

// Upstream's CountDownSuccess and CountDownError; a CountDown that is copied into lambdas or constructed from a promise
// RUN count_down {} -> ==
SELF_TEST(count_down) {
  ffi::CountDownPromise three(3);
  ffi::Future future(three);
  int called = 0;
  future.OnReady([&](const std::optional<ffi::Error>& e) { called += e.has_value() ? 10 : 1; });
  EXPECT(!three.CountDown() && !three.CountDown() && called == 0);
  auto last = [three]() mutable { return three.CountDown(); };
  EXPECT(last() && called == 1);

  ffi::Promise promise;
  ffi::CountDownPromise failing(promise, 2);
  ffi::Future failed(failing);
  std::string message;
  failed.OnReady([&](const std::optional<ffi::Error>& e) { message = e->message(); });
  EXPECT(!failing.CountDown(ffi::Error::Internal("half")));
  EXPECT(failing.CountDown(1) && message == "half");
  return ffi::Error::Success();
}

// Upstream's CountDownSuccessFromThreadPool and CountDownErrorFromThreadPool
// RUN count_down_threads {} -> ==
SELF_TEST(count_down_threads) {
  for (const bool fails : {false, true}) {
    ffi::CountDownPromise promise(8);
    ffi::Future future(promise);
    std::atomic<int> sum{0}, result{0};
    future.OnReady([&](const std::optional<ffi::Error>& e) { result = e.has_value() ? -sum : +sum; });
    std::vector<std::thread> threads;
    for (int i = 1; i <= 8; ++i) {
      threads.emplace_back([&sum, promise, i, fails]() mutable {
        sum += i;
        promise.CountDown(fails && i == 3 ? ffi::Error::Internal("three") : ffi::Error::Success());
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT(result == (fails ? -36 : 36));
  }
  return ffi::Error::Success();
}

// Upstream's AsyncHandler: futures that are completed in advance, by a thread, by the pool, or with an error
// RUN async_ready {x = 3 : i64} -> s64[1] == 3
// RUN async_ready {x = -1 : i64} -> s64[1] !! ABORTED negative
static ffi::Future AsyncReady(ffi::ResultBufferR1<ffi::S64> y, int64_t x) {
  ffi::Promise promise;
  ffi::Future future(promise);
  Put(y, {x});
  if (x < 0) {
    promise.SetError(ffi::Error(ffi::ErrorCode::kAborted, "negative"));
  } else {
    promise.SetAvailable();
  }
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    async_ready, AsyncReady,
    ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int64_t>("x"));
// RUN async_thread {x = 3 : i64} -> s64[1] == 3
// RUN async_thread {x = -1 : i64} -> s64[1] !! ABORTED negative
static ffi::Future AsyncThread(ffi::ResultBufferR1<ffi::S64> y, int64_t x) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, data = y->typed_data(), x]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    *data = x;
    if (x < 0) {
      promise.SetError(ffi::Error(ffi::ErrorCode::kAborted, "negative"));
    } else {
      promise.SetAvailable();
    }
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    async_thread, AsyncThread,
    ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int64_t>("x"));
// RUN async_pool from=r1 {} -> s64[4] == 1,2,3,4
static ffi::Future AsyncPool(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y) {
  ffi::CountDownPromise promise(4);
  ffi::Future future(promise);
  for (int64_t i = 0; i < 4; ++i) {
    pool.Schedule([promise, data = y->typed_data(), i]() mutable {
      data[i] = i + 1;
      promise.CountDown();
    });
  }
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    async_pool, AsyncPool,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR1<ffi::S64>>());
