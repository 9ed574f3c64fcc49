// Runs programs of xla/client/xla_builder.h in this process, on the embedded runtime. If a client of xla_ffi/plugin.h
// is passed as an additional argument, programs run on a real XLA. Link with libxla_ffi_runtime.
//
//   xla::StatusOr<xla::Literal> result = xla_ffi::Run(computation, {x, y});
//   xla::StatusOr<xla::Literal> same = xla_ffi::Run(computation, {x, y}, client);
//
// Programs can call the targets that are registered in this process: with XLA_REGISTER_CUSTOM_CALL_TARGET,
// with XLA_FFI_REGISTER_HANDLER, or with `runtime()`.
#ifndef XLA_FFI_EMBEDDED_H_
#define XLA_FFI_EMBEDDED_H_

#ifndef __cplusplus
#error "this is the C++ header; C programs use xla_ffi/program.h"
#endif

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/statusor.h"
#include "xla_ffi/plugin.h"
#include "xla_ffi/program.h"
#if __has_include("xla/service/custom_call_target_registry.h")
#include "xla/service/custom_call_target_registry.h"
#endif

namespace xla_ffi {

// Returns the runtime with which this program's handlers are registered, for functions of runtime.h. The runtime is
// never destroyed, because other static objects and threads may use it when the program ends.
inline xffi_rt* runtime() {
  static xffi_rt* const global = xffi_rt_global();
  return global;
}

// Returns NOT_FOUND, with all missing names, if handlers or original custom calls are not registered. First registers
// the original custom calls of this program. A linker omits unreferenced parts of a static library, so call this
// function when the program starts: Require({"my_server.scale"}).
inline xla::Status Require(const std::vector<const char*>& names, const char* platform = "Host") {
#if defined(XFFI_LEGACY_UNKNOWN)  // defined if this program can register original custom calls
  for (const xffi_legacy_target* target = xla_ffi_legacy_targets(); target != nullptr;
       target = target->next) {
    if (xffi_rt_status* status = xffi_rt_register_legacy(
            runtime(), target->name, target->platform, target->function, target->signature)) {
      return xla::Status(status);
    }
  }
#endif
  return xla::Status(xffi_rt_require(runtime(), platform, names.data(), names.size()));
}

// Starts a call without waiting for an asynchronous handler; a synchronous handler runs within this function. The
// future is ready when the handler is done or the time limit is exceeded. Then xffi_rt_call_wait(call, 0) returns the
// outcome. The call must not be used before.
inline xla::StatusOr<std::future<void>> RunAsync(xffi_rt_call* call) {
  auto promise = std::make_unique<std::promise<void>>();
  std::future<void> future = promise->get_future();
  const auto done = [](void* user) {
    std::unique_ptr<std::promise<void>>(static_cast<std::promise<void>*>(user))->set_value();
  };
  if (xffi_rt_status* status = xffi_rt_call_run_async(call, done, promise.get())) {
    return xla::Status(status);
  }
  static_cast<void>(promise.release());
  return future;
}

// A compiled program, which can run many times.
class Executable {
 public:
  // Compiles a program for the embedded runtime. `tuples` is one of the XFFI_RT_TUPLES_ forms. If `check_unwritten` is
  // set, runs fail if calls leave results unwritten; see xffi_rt_call_set_check_unwritten.
  static xla::StatusOr<Executable> Compile(const xla::XlaComputation& computation,
                                           const std::string& platform = "Host",
                                           int tuples = XFFI_RT_TUPLES_TODAY,
                                           bool with_device = false,
                                           bool check_unwritten = false) {
    xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
    options.platform = platform.c_str();
    options.tuples = tuples;
    options.with_device = with_device ? 1 : 0;
    options.check_unwritten = check_unwritten ? 1 : 0;
    return CompileWith(computation, options);
  }

  // Compiles a program for a real XLA, with the client's plugin. Registers the program's handlers and original CPU
  // targets from `runtime()` with the plugin.
  static xla::StatusOr<Executable> Compile(const xla::XlaComputation& computation,
                                           const Client& client, int tuples = XFFI_RT_TUPLES_TODAY) {
    if (client.get() == nullptr) return Invalid("the client is none: it was moved from");
    xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
    options.tuples = tuples;
    options.client = client.get();
    return CompileWith(computation, options);
  }

  // Compiles a program with all options of xffi_rt_compile. Options that are 0 have the defaults of that function.
  static xla::StatusOr<Executable> CompileWith(const xla::XlaComputation& computation,
                                               const xffi_rt_compile_options& options) {
    const xla::Status registered = Require({});
    if (!registered.ok()) return registered;
    xla::StatusOr<std::vector<xla::Shape>> parameters = computation.parameters();
    if (!parameters.ok()) return parameters.status();
    xla::StatusOr<xla::Shape> result = computation.result();
    if (!result.ok()) return result.status();
    xffi_rt_compiled* compiled = nullptr;
    if (xffi_rt_status* status =
            xffi_rt_compile(runtime(), computation.get(), &options, &compiled)) {
      return xla::Status(status);
    }
    return Executable(compiled, *std::move(parameters), *std::move(result));
  }

  // Runs the program. `arguments` has one literal per parameter; tuples are tuple literals, and elements are row-major
  // for any layout. After a failure there is no result.
  //
  // A handler that exceeds the time limit (DEADLINE_EXCEEDED), or that leaves a future in addition to its error,
  // continues to run. Literals that were moved into `arguments` are kept as long as the handler may read them. Other
  // literals must stay valid until xffi_rt_wait_for_calls(runtime(), ...) succeeds.
  //
  // `options` (user data, a canceller, a time limit and a run id for this run) is initialised with
  // XFFI_RT_RUN_OPTIONS_INIT.
  xla::StatusOr<xla::Literal> Run(const std::vector<xla::Literal>& arguments,
                                  const xffi_rt_run_options* options = nullptr) const {
    return RunOn(arguments, nullptr, options);
  }
  xla::StatusOr<xla::Literal> Run(std::vector<xla::Literal>&& arguments,
                                  const xffi_rt_run_options* options = nullptr) const {
    const auto own = std::make_shared<const std::vector<xla::Literal>>(std::move(arguments));
    return RunOn(*own, own, options);
  }

 private:
  Executable(xffi_rt_compiled* compiled, std::vector<xla::Shape> parameters, xla::Shape result)
      : compiled_(compiled, xffi_rt_compiled_destroy),
        parameters_(std::move(parameters)),
        result_(std::move(result)) {}

  using Kept = std::shared_ptr<const void>;

  xla::StatusOr<xla::Literal> RunOn(const std::vector<xla::Literal>& arguments,
                                    const Kept& own, const xffi_rt_run_options* options) const {
    if (arguments.size() != parameters_.size()) {
      return Invalid("the program has " + std::to_string(parameters_.size()) + " parameters, " +
                     std::to_string(arguments.size()) + " literals came");
    }
    std::vector<const void*> args;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const xla::Literal& argument = arguments[i];
      if (!xla::ShapeUtil::Compatible(argument.shape(), parameters_[i])) {
        return Invalid("parameter " + std::to_string(i) + " is " + parameters_[i].ToString() +
                       ", " + argument.shape().ToString() + " came");
      }
      if (!Matches(argument, parameters_[i])) {
        return Invalid("parameter " + std::to_string(i) + " is " + parameters_[i].ToString() +
                       ", a tuple came whose elements have other shapes");
      }
      Append(argument, &args);
    }
    const auto result = std::make_shared<xla::Literal>(result_);
    std::vector<void*> rets;
    Append(*result, &rets);
    if (xffi_rt_status* status = xffi_rt_compiled_run(compiled_.get(), args.data(), args.size(),
                                                      rets.data(), rets.size(), options)) {
      if (CanContinue(status)) Keep(result, own);
      return xla::Status(status);
    }
    return std::move(*result);
  }

  // Returns true if the handler may still run after this failure: it exceeded the time limit, or the failure is a
  // hazard.
  static bool CanContinue(const xffi_rt_status* status) {
    return xffi_rt_status_code(status) == XLA_FFI_Error_Code_DEADLINE_EXCEEDED ||
           xffi_rt_status_is_hazard(status) != 0;
  }

  // Keeps the operands of a handler that may still run after its call failed. They are freed when no call of the
  // runtime is running.
  static void Keep(Kept result, Kept arguments) {
    struct Late {
      std::mutex mutex;
      std::vector<Kept> kept;
    };
    // Never destroyed, because handlers may still run when the program ends.
    static Late* const late = new Late();
    const std::lock_guard<std::mutex> lock(late->mutex);
    late->kept.push_back(std::move(result));
    late->kept.push_back(std::move(arguments));
    xffi_rt_status* const underway = xffi_rt_wait_for_calls(runtime(), 0);
    if (underway == nullptr) late->kept.clear();
    xffi_rt_status_destroy(underway);
  }

  static xla::Status Invalid(std::string message) {
    return xla::Status(XLA_FFI_Error_Code_INVALID_ARGUMENT, std::move(message));
  }

  // Returns true if a literal and all its elements have the shapes that `shape` specifies.
  static bool Matches(const xla::Literal& literal, const xla::Shape& shape) {
    if (!shape.IsTuple()) return xla::ShapeUtil::Compatible(literal.shape(), shape);
    const std::vector<xla::Literal>& elements = literal.elements();
    if (!literal.shape().IsTuple() || elements.size() != shape.tuple_shapes_size()) return false;
    for (size_t i = 0; i < elements.size(); ++i) {
      if (!Matches(elements[i], shape.tuple_shapes(i))) return false;
    }
    return true;
  }

  // Adds the addresses of the arrays of a literal to `pointers`, in pre-order.
  template <typename Literal, typename Pointer>
  static void Append(Literal& literal, std::vector<Pointer>* pointers) {
    if (!literal.shape().IsTuple()) {
      pointers->push_back(literal.untyped_data());
      return;
    }
    for (auto& element : literal.elements()) Append(element, pointers);
  }

  std::shared_ptr<xffi_rt_compiled> compiled_;
  std::vector<xla::Shape> parameters_;
  xla::Shape result_;
};

// Compiles a program for a real XLA and runs it once.
inline xla::StatusOr<xla::Literal> Run(const xla::XlaComputation& computation,
                                       const std::vector<xla::Literal>& arguments,
                                       const Client& client) {
  xla::StatusOr<Executable> executable = Executable::Compile(computation, client);
  if (!executable.ok()) return executable.status();
  return executable->Run(arguments);
}

// Compile a program for the embedded runtime on the CPU and run it once. `arguments` as for Executable::Run.
inline xla::StatusOr<xla::Literal> Run(const xla::XlaComputation& computation,
                                       const std::vector<xla::Literal>& arguments) {
  xla::StatusOr<Executable> executable = Executable::Compile(computation);
  if (!executable.ok()) return executable.status();
  return executable->Run(arguments);
}
inline xla::StatusOr<xla::Literal> Run(const xla::XlaComputation& computation,
                                       std::vector<xla::Literal>&& arguments) {
  xla::StatusOr<Executable> executable = Executable::Compile(computation);
  if (!executable.ok()) return executable.status();
  return executable->Run(std::move(arguments));
}

}  // namespace xla_ffi

#endif  // XLA_FFI_EMBEDDED_H_
