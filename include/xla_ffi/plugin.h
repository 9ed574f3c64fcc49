// Runs a real XLA in C++ programs, without Python: a PJRT plugin runs programs of xla/client/xla_builder.h, and any
// StableHLO. Link with libxla_ffi_runtime.
//
//   xla::StatusOr<xla_ffi::Client> client = xla_ffi::Client::Open("xla_cpu_pjrt.so");
//   xla::StatusOr<xla::Literal> result = xla_ffi::Run(computation, {x, y}, *client);   // xla_ffi/embedded.h
//
// xla_ffi/pjrt.h has the underlying C functions, which also support user data, run ids and time limits.
#ifndef XLA_FFI_PLUGIN_H_
#define XLA_FFI_PLUGIN_H_

#ifndef __cplusplus
#error "this is the C++ header; C programs use xla_ffi/pjrt.h"
#endif

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/literal.h"
#include "xla/shape_util.h"
#include "xla/statusor.h"
#include "xla_ffi/pjrt.h"

namespace xla_ffi {

// A program that a PJRT plugin has compiled. The program can run many times, on several threads at once. Copies share
// the same program.
class Loaded {
 public:
  // Takes ownership of a program that xffi_rt_client_compile returned.
  explicit Loaded(xffi_rt_loaded* loaded) : loaded_(loaded, xffi_rt_loaded_destroy) {}
  // Returns the program for use with the functions of pjrt.h. This object still owns the program.
  const xffi_rt_loaded* get() const { return loaded_.get(); }

  // Runs the program with one array per parameter, and returns the result's arrays, with all tuples flattened. After a
  // failure there are no results.
  xla::StatusOr<std::vector<xla::Literal>> Run(
      const std::vector<xla::Literal>& arguments,
      const xffi_rt_launch_options* options = nullptr) const {
    std::vector<xffi_rt_array> args;
    for (const xla::Literal& argument : arguments) {
      if (argument.shape().IsTuple()) {
        return xla::Status(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                           "argument " + std::to_string(args.size()) +
                               " is a tuple: a compiled program takes its arrays one by one");
      }
      const std::vector<int64_t>& dims = argument.shape().dimensions();
      args.push_back({static_cast<XLA_FFI_DataType>(argument.shape().element_type()),
                      static_cast<int64_t>(dims.size()), dims.data(), argument.untyped_data()});
    }
    xffi_rt_results* made = nullptr;
    if (xffi_rt_status* status =
            xffi_rt_loaded_run(loaded_.get(), args.data(), args.size(), options, &made)) {
      return xla::Status(status);
    }
    const std::unique_ptr<xffi_rt_results, decltype(&xffi_rt_results_destroy)> results(
        made, xffi_rt_results_destroy);
    std::vector<xla::Literal> literals;
    for (size_t i = 0; i < xffi_rt_results_count(made); ++i) {
      xffi_rt_array array;
      if (xffi_rt_status* status = xffi_rt_results_get(made, i, &array)) return xla::Status(status);
      literals.emplace_back(xla::ShapeUtil::MakeShape(
          static_cast<xla::PrimitiveType>(array.dtype),
          std::vector<int64_t>(array.dims, array.dims + array.rank)));
      const size_t size = literals.back().size_bytes();
      if (size > 0) std::memcpy(literals.back().untyped_data(), array.data, size);
    }
    return literals;
  }

 private:
  std::shared_ptr<xffi_rt_loaded> loaded_;
};

// A client of a PJRT plugin. Its programs run on the plugin's first device. Copies share the same client.
class Client {
 public:
  // Loads a plugin and creates a client. The plugin stays loaded until the process ends.
  static xla::StatusOr<Client> Open(const std::string& path) {
    xffi_rt_client* client = nullptr;
    if (xffi_rt_status* status = xffi_rt_client_open(path.c_str(), &client)) {
      return xla::Status(status);
    }
    return Client(client);
  }

  // Returns the client for use with the functions of pjrt.h. This object still owns the client.
  const xffi_rt_client* get() const { return client_.get(); }
  // Returns the platform's name, for example "cpu" or "cuda".
  std::string platform() const { return xffi_rt_client_platform(client_.get()); }

  // Registers functions of this program as a handler, for all clients of the plugin. Programs that run through
  // xla_ffi/embedded.h do not need this, because the registrations of the embedded runtime are copied to the plugin.
  xla::Status Register(const std::string& name, const XLA_FFI_Handler_Bundle& bundle) const {
    return ToStatus(xffi_rt_client_register(client_.get(), name.c_str(), &bundle));
  }
  xla::Status Register(const std::string& name, XLA_FFI_Handler* execute) const {
    return Register(name, XLA_FFI_Handler_Bundle{nullptr, nullptr, nullptr, execute, nullptr});
  }
  // Registers all handlers of a library that has a manifest (XLA_FFI_LIBRARY, XFFI_LIBRARY) or exports
  // xla_ffi_register.
  xla::Status RegisterLibrary(const xffi_rt_library* library) const {
    return ToStatus(xffi_rt_client_register_library(client_.get(), library));
  }

  // Compiles a StableHLO program, given as text or byte code.
  xla::StatusOr<Loaded> Compile(std::string_view stablehlo) const {
    xffi_rt_loaded* loaded = nullptr;
    if (xffi_rt_status* status = xffi_rt_client_compile(client_.get(), stablehlo.data(),
                                                        stablehlo.size(), &loaded)) {
      return xla::Status(status);
    }
    return Loaded(loaded);
  }

 private:
  explicit Client(xffi_rt_client* client) : client_(client, xffi_rt_client_destroy) {}

  static xla::Status ToStatus(xffi_rt_status* status) {
    return status == nullptr ? xla::OkStatus() : xla::Status(status);
  }

  std::shared_ptr<xffi_rt_client> client_;
};

}  // namespace xla_ffi

#endif  // XLA_FFI_PLUGIN_H_
