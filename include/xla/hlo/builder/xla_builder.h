// Builds programs with custom calls, with the interface from XLA's documents. Link with libxla_ffi_runtime.
//
//   xla::XlaBuilder b("do_it");
//   xla::XlaOp x = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(xla::F32, {128}), "x");
//   xla::CustomCall(&b, "do_custom_call", /*operands=*/{x},
//                   /*shape=*/xla::ShapeUtil::MakeShape(xla::F32, {128}));
//   xla::StatusOr<xla::XlaComputation> computation = b.Build();
//
// Supported operations: parameters, constants, tokens, tuples and custom calls. Build reports all mistakes
// together, with the names of the instructions. xla_ffi/embedded.h runs the programs.
#ifndef XLA_HLO_BUILDER_XLA_BUILDER_H_
#define XLA_HLO_BUILDER_XLA_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/literal_util.h"
#include "xla/shape_util.h"
#include "xla/statusor.h"
#include "xla/xla_data.pb.h"
#include "xla_ffi/program.h"

namespace xla {

class XlaBuilder;

// A handle of an instruction in a builder. The attribute avoids warnings, because code in XLA's documents has unused
// variables of this type.
class [[maybe_unused]] XlaOp {
 public:
  XlaOp() = default;
  XlaOp(XlaBuilder* builder, xffi_rt_op op) : builder_(builder), op_(op) {}
  bool valid() const { return builder_ != nullptr; }
  XlaBuilder* builder() const { return builder_; }
  xffi_rt_op get() const { return op_; }

 private:
  XlaBuilder* builder_ = nullptr;
  xffi_rt_op op_ = XFFI_RT_NO_OP;
};

// Aliases between an output and an operand of a custom call: {output index, {operand, index within the operand}}.
using OutputOperandAliasing = std::vector<std::pair<ShapeIndex, std::pair<int64_t, ShapeIndex>>>;

class XlaBuilder {
 public:
  explicit XlaBuilder(const std::string& name) : name_(name) {
    Note(xffi_rt_builder_create(name.c_str(), &builder_));
    Living& living = AllLiving();
    const std::lock_guard<std::mutex> lock(living.mutex);
    living.builders.push_back(this);
  }
  ~XlaBuilder() {
    {
      Living& living = AllLiving();
      const std::lock_guard<std::mutex> lock(living.mutex);
      living.builders.remove(this);
    }
    xffi_rt_builder_destroy(builder_);
  }
  XlaBuilder(const XlaBuilder&) = delete;
  XlaBuilder& operator=(const XlaBuilder&) = delete;

  const std::string& name() const { return name_; }
  xffi_rt_builder* get() const { return builder_; }

  // Returns the shape of an instruction.
  StatusOr<Shape> GetShape(XlaOp op) const {
    char* text = nullptr;
    if (xffi_rt_status* status = xffi_rt_builder_shape(builder_, op.get(), &text)) {
      return Status(status);
    }
    Shape shape = Shape::FromHlo(text);
    xffi_rt_text_destroy(text);
    return shape;
  }

  // Builds the program with the result `root`, or with the last instruction as the result. The builder cannot be used
  // afterwards.
  StatusOr<XlaComputation> Build(XlaOp root) {
    if (!status_.ok()) return status_;
    xffi_rt_program* program = nullptr;
    if (xffi_rt_status* status = xffi_rt_builder_build(builder_, root.get(), &program)) {
      return Status(status);
    }
    return XlaComputation(program);
  }
  StatusOr<XlaComputation> Build(bool /*remove_dynamic_dimensions*/ = false) {
    xffi_rt_op last = XFFI_RT_NO_OP;
    if (status_.ok()) Note(xffi_rt_builder_last(builder_, &last));
    return Build(XlaOp(this, last));
  }
  // Returns the first error of the functions that added instructions.
  const Status& first_error() const { return status_; }
  // Stores a failed status if it is the first one, and destroys `status`.
  void Note(xffi_rt_status* status) {
    if (status == nullptr) return;
    Status noted(status);
    if (status_.ok()) status_ = std::move(noted);
  }

  // Returns the most recently created builder of this thread that still exists; null if there is none.
  static XlaBuilder* Newest() {
    Living& living = AllLiving();
    const std::lock_guard<std::mutex> lock(living.mutex);
    XlaBuilder* newest = nullptr;
    for (XlaBuilder* builder : living.builders) {
      if (builder->thread_ == std::this_thread::get_id()) newest = builder;
    }
    return newest;
  }

 private:
  // All existing builders. A list with a mutex, because builders may be destroyed in any order and on any thread.
  struct Living {
    std::mutex mutex;
    std::list<XlaBuilder*> builders;
  };
  static Living& AllLiving() {
    static Living* const living = new Living();
    return *living;
  }

  std::string name_;
  std::thread::id thread_ = std::this_thread::get_id();
  xffi_rt_builder* builder_ = nullptr;
  Status status_;
};

inline XlaOp Parameter(XlaBuilder* builder, int64_t parameter_number, const Shape& shape,
                       const std::string& name) {
  xffi_rt_op op = XFFI_RT_NO_OP;
  const std::string text = shape.ToString(true);
  builder->Note(xffi_rt_builder_parameter(builder->get(), parameter_number, text.c_str(),
                                          name.c_str(), &op));
  return XlaOp(builder, op);
}

inline XlaOp ConstantLiteral(XlaBuilder* builder, const Literal& literal) {
  xffi_rt_op op = XFFI_RT_NO_OP;
  const std::string text = literal.shape().ToString();
  builder->Note(xffi_rt_builder_constant(builder->get(), text.c_str(), literal.untyped_data(),
                                         literal.size_bytes(), &op));
  return XlaOp(builder, op);
}

template <typename T>
XlaOp ConstantR0(XlaBuilder* builder, T value) {
  return ConstantLiteral(builder, LiteralUtil::CreateR0<T>(value));
}

template <typename T>
XlaOp ConstantR1(XlaBuilder* builder, const std::vector<T>& values) {
  return ConstantLiteral(builder, LiteralUtil::CreateR1<T>(values));
}

inline XlaOp CreateToken(XlaBuilder* builder) {
  xffi_rt_op op = XFFI_RT_NO_OP;
  builder->Note(xffi_rt_builder_token(builder->get(), &op));
  return XlaOp(builder, op);
}

inline XlaOp Tuple(XlaBuilder* builder, const std::vector<XlaOp>& elements) {
  std::vector<xffi_rt_op> ops;
  for (const XlaOp& element : elements) ops.push_back(element.get());
  xffi_rt_op op = XFFI_RT_NO_OP;
  builder->Note(xffi_rt_builder_tuple(builder->get(), ops.data(), ops.size(), &op));
  return XlaOp(builder, op);
}

// Returns an element of a tuple. If `tuple_data` is invalid, the result is also invalid, and Build reports the error.
inline XlaOp GetTupleElement(XlaOp tuple_data, int64_t index) {
  if (!tuple_data.valid()) return tuple_data;
  XlaBuilder* builder = tuple_data.builder();
  xffi_rt_op op = XFFI_RT_NO_OP;
  builder->Note(xffi_rt_builder_get_tuple_element(builder->get(), tuple_data.get(), index, &op));
  return XlaOp(builder, op);
}

namespace xffi {

// Adds a custom call with all options. Optional parts that are null are omitted.
inline XlaOp AddCustomCall(XlaBuilder* builder, const std::string& target,
                           const std::vector<XlaOp>& operands, const XlaComputation* computation,
                           const Shape& shape, const std::vector<Shape>* operand_shapes,
                           const std::string& opaque, bool has_side_effect,
                           const OutputOperandAliasing& aliasing, const Literal* literal,
                           CustomCallSchedule schedule, CustomCallApiVersion api_version) {
  std::vector<xffi_rt_op> ops;
  for (const XlaOp& operand : operands) ops.push_back(operand.get());
  const std::string shape_text = shape.ToString(true);
  std::vector<std::string> layouts;
  std::vector<const char*> layout_texts;
  if (operand_shapes != nullptr) {
    for (const Shape& operand : *operand_shapes) layouts.push_back(operand.ToString(true));
    for (const std::string& layout : layouts) layout_texts.push_back(layout.c_str());
    layout_texts.push_back(nullptr);
  }
  std::vector<xffi_rt_alias> aliases;
  for (const auto& [output, source] : aliasing) {
    aliases.push_back({output.data(), output.size(), source.first, source.second.data(),
                       source.second.size()});
  }
  std::string literal_text;
  xffi_rt_custom_call call = XFFI_RT_CUSTOM_CALL_INIT;
  call.target = target.c_str();
  call.operands = ops.data();
  call.operand_count = ops.size();
  call.shape = shape_text.c_str();
  if (operand_shapes != nullptr) {
    call.operand_layouts = layout_texts.data();
    call.operand_layout_count = operand_shapes->size();
  }
  call.opaque = opaque.data();
  call.opaque_size = opaque.size();
  call.has_side_effect = has_side_effect ? 1 : 0;
  call.aliases = aliases.data();
  call.alias_count = aliases.size();
  if (literal != nullptr) {
    literal_text = literal->shape().ToString();
    call.literal_shape = literal_text.c_str();
    call.literal = literal->untyped_data();
    call.literal_size = literal->size_bytes();
  }
  call.schedule = schedule;
  call.api_version = api_version;
  const xffi_rt_program* called = computation != nullptr ? computation->get() : nullptr;
  call.called = &called;
  call.called_count = computation != nullptr ? 1 : 0;
  xffi_rt_op op = XFFI_RT_NO_OP;
  builder->Note(xffi_rt_builder_custom_call(builder->get(), &call, &op));
  return XlaOp(builder, op);
}

}  // namespace xffi

// Adds a call of the target `call_target_name`. For API_VERSION_TYPED_FFI, `opaque` is empty or the text of an MLIR
// dictionary such as "{eps = 1.0e-5 : f32}".
inline XlaOp CustomCall(XlaBuilder* builder, const std::string& call_target_name,
                        const std::vector<XlaOp>& operands, const Shape& shape,
                        const std::string& opaque = "", bool has_side_effect = false,
                        const OutputOperandAliasing& output_operand_aliasing = {},
                        const Literal* literal = nullptr,
                        CustomCallSchedule schedule = CustomCallSchedule::SCHEDULE_NONE,
                        CustomCallApiVersion api_version = API_VERSION_ORIGINAL) {
  return xffi::AddCustomCall(builder, call_target_name, operands, nullptr, shape, nullptr, opaque,
                             has_side_effect, output_operand_aliasing, literal, schedule,
                             api_version);
}

// Adds a custom call with a called computation, which the target may run.
inline XlaOp CustomCallWithComputation(
    XlaBuilder* builder, const std::string& call_target_name, const std::vector<XlaOp>& operands,
    const XlaComputation& computation, const Shape& shape, const std::string& opaque = "",
    bool has_side_effect = false, const OutputOperandAliasing& output_operand_aliasing = {},
    const Literal* literal = nullptr,
    CustomCallSchedule schedule = CustomCallSchedule::SCHEDULE_NONE,
    CustomCallApiVersion api_version = API_VERSION_ORIGINAL) {
  return xffi::AddCustomCall(builder, call_target_name, operands, &computation, shape, nullptr,
                             opaque, has_side_effect, output_operand_aliasing, literal, schedule,
                             api_version);
}

// Adds a custom call whose target requires the layouts of `shape` and `operand_shapes_with_layout`.
inline XlaOp CustomCallWithLayout(
    XlaBuilder* builder, const std::string& call_target_name, const std::vector<XlaOp>& operands,
    const Shape& shape_with_layout, const std::vector<Shape>& operand_shapes_with_layout,
    const std::string& opaque = "", bool has_side_effect = false,
    const OutputOperandAliasing& output_operand_aliasing = {}, const Literal* literal = nullptr,
    CustomCallSchedule schedule = CustomCallSchedule::SCHEDULE_NONE,
    CustomCallApiVersion api_version = API_VERSION_ORIGINAL) {
  return xffi::AddCustomCall(builder, call_target_name, operands, nullptr, shape_with_layout,
                             &operand_shapes_with_layout, opaque, has_side_effect,
                             output_operand_aliasing, literal, schedule, api_version);
}

// Adds a custom call with a called computation, and with layouts of its operands and result.
inline XlaOp CustomCallWithComputationAndLayouts(
    XlaBuilder* builder, const std::string& call_target_name, const std::vector<XlaOp>& operands,
    const XlaComputation& computation, const Shape& shape_with_layout,
    const std::vector<Shape>& operand_shapes_with_layout, const std::string& opaque = "",
    bool has_side_effect = false, const OutputOperandAliasing& output_operand_aliasing = {},
    const Literal* literal = nullptr,
    CustomCallSchedule schedule = CustomCallSchedule::SCHEDULE_NONE,
    CustomCallApiVersion api_version = API_VERSION_ORIGINAL) {
  return xffi::AddCustomCall(builder, call_target_name, operands, &computation, shape_with_layout,
                             &operand_shapes_with_layout, opaque, has_side_effect,
                             output_operand_aliasing, literal, schedule, api_version);
}

}  // namespace xla

// XLA's custom-call documents have code without namespaces and, in one place, without a builder. Define
// XLA_FFI_UNQUALIFIED_NAMES to compile this code unchanged.
#if defined(XLA_FFI_UNQUALIFIED_NAMES)
#include "xla/service/custom_call_status.h"
#include "xla/service/custom_call_target_registry.h"

// CUDA's stream type. Repeats the declaration of CUDA's own header, which may also be included.
typedef struct CUstream_st* CUstream;

namespace xla {
// Adds a parameter to the most recently created builder of this thread.
inline XlaOp Parameter(int64_t parameter_number, const Shape& shape, const std::string& name) {
  XlaBuilder* builder = XlaBuilder::Newest();
  if (builder == nullptr) return XlaOp();
  return Parameter(builder, parameter_number, shape, name);
}
}  // namespace xla

using xla::API_VERSION_ORIGINAL;
using xla::API_VERSION_STATUS_RETURNING;
using xla::API_VERSION_STATUS_RETURNING_UNIFIED;
using xla::API_VERSION_TYPED_FFI;
using xla::CustomCallApiVersion;
using xla::CustomCallSchedule;
using xla::F32;
using xla::Shape;
using xla::ShapeUtil;
#endif

#endif  // XLA_HLO_BUILDER_XLA_BUILDER_H_
