// XlaComputation, a built program.
#ifndef XLA_HLO_BUILDER_XLA_COMPUTATION_H_
#define XLA_HLO_BUILDER_XLA_COMPUTATION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla/shape.h"
#include "xla/statusor.h"
#include "xla_ffi/program.h"

namespace xla {

// A built program. Copies share the same immutable program.
class XlaComputation {
 public:
  XlaComputation() = default;
  // Takes ownership of a program that a function of program.h returned.
  explicit XlaComputation(xffi_rt_program* program)
      : program_(program, xffi_rt_program_destroy) {}

  // Parses HLO text, as XLA or ToHloText prints it. Supports parameters, constants, tuples and custom calls.
  static StatusOr<XlaComputation> FromHloText(const std::string& text) {
    xffi_rt_program* program = nullptr;
    if (xffi_rt_status* status = xffi_rt_program_parse(text.c_str(), &program)) {
      return Status(status);
    }
    return XlaComputation(program);
  }

  bool IsNull() const { return program_ == nullptr; }
  // Returns the program for use with the functions of program.h. This object still owns the program.
  const xffi_rt_program* get() const { return program_.get(); }
  // Return the program as HLO text or as StableHLO.
  StatusOr<std::string> ToHloText() const { return Text(xffi_rt_program_hlo); }
  StatusOr<std::string> ToStableHlo() const { return Text(xffi_rt_program_stablehlo); }
  // Return the shapes of the parameters and of the result.
  StatusOr<std::vector<Shape>> parameters() const {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < xffi_rt_program_parameter_count(program_.get()); ++i) {
      StatusOr<std::string> text = Text([i](const xffi_rt_program* program, char** out) {
        return xffi_rt_program_parameter_shape(program, i, out);
      });
      if (!text.ok()) return text.status();
      shapes.push_back(Shape::FromHlo(*text));
    }
    return shapes;
  }
  StatusOr<Shape> result() const {
    StatusOr<std::string> text = Text(xffi_rt_program_result_shape);
    if (!text.ok()) return text.status();
    return Shape::FromHlo(*text);
  }

 private:
  template <typename Function>
  StatusOr<std::string> Text(Function function) const {
    char* text = nullptr;
    if (xffi_rt_status* status = function(program_.get(), &text)) return Status(status);
    std::string copy = text;
    xffi_rt_text_destroy(text);
    return copy;
  }

  std::shared_ptr<xffi_rt_program> program_;
};

}  // namespace xla

#endif  // XLA_HLO_BUILDER_XLA_COMPUTATION_H_
