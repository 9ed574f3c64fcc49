// Programs in the style of XLA's documents about custom calls, old and new. They contain the same calls, names and
// headers as the documents, also unqualified names and programs without a builder. The programs are printed and run.
#define XLA_FFI_UNQUALIFIED_NAMES
#include "xla/client/xla_builder.h"
#include "xla/service/custom_call_status.h"
#include "xla/service/custom_call_target_registry.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/embedded.h"

static xla::XlaComputation built;
// Builds and keeps the program of a builder, because the builder is destroyed at the end of its scope.
static void Keep(xla::XlaBuilder& b) { built = b.Build().value(); }

namespace original {

void tiled_add(void* out, const void** in) {
  const float* tile = reinterpret_cast<const float*>(in[0]);
  const float* wide = reinterpret_cast<const float*>(in[1]);
  for (int i = 0; i < 2048; ++i) reinterpret_cast<float*>(out)[i] = tile[i % 128] + wide[i];
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add, "Host");

void make() {
  xla::XlaBuilder b("tiled");
  xla::XlaOp tile = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(xla::F32, {128}), "tile");
  xla::XlaOp wide = xla::Parameter(&b, 1, xla::ShapeUtil::CreateShape(xla::F32, {2048}), "wide");
  xla::XlaOp call = xla::CustomCall(&b, "tiled_add", /*operands=*/{tile, wide},
                                    /*shape=*/xla::ShapeUtil::MakeShape(xla::F32, {2048}));
  Keep(b);
}

}  // namespace original

namespace device {

static std::string seen;

void tiled_add(CUstream stream, void** buffers, const char* opaque, size_t opaque_len) {
  // A loop replaces the kernel of the document, because the device is a thread.
  const float* tile = reinterpret_cast<const float*>(buffers[0]);
  const float* wide = reinterpret_cast<const float*>(buffers[1]);
  for (int i = 0; i < 2048; ++i) reinterpret_cast<float*>(buffers[2])[i] = tile[i % 128] + wide[i];
  seen.assign(opaque, opaque_len);
  if (stream == nullptr) seen = "no stream";
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add, "CUDA");

void make() {
  xla::XlaBuilder b("tiled");
  xla::XlaOp tile = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(xla::F32, {128}), "tile");
  xla::XlaOp wide = xla::Parameter(&b, 1, xla::ShapeUtil::MakeShape(xla::F32, {2048}), "wide");
  std::string opaque("any\0bytes", 9);
  xla::CustomCall(&b, "tiled_add", /*operands=*/{tile, wide},
                  /*output_shape=*/xla::ShapeUtil::MakeShape(xla::F32, {2048}), opaque);
  Keep(b);
}

}  // namespace device

namespace failing {

static bool fail = false;

void may_fail(void* out, const void** in, XlaCustomCallStatus* status) {
  std::memcpy(out, in[0], sizeof(float));
  if (fail) {
    const char message[] = "it did not \"work\"";
    XlaCustomCallStatusSetFailure(status, message, strlen(message));
  }
}
XLA_REGISTER_CUSTOM_CALL_TARGET(may_fail, "Host");

// The declaration of a device target in the documents.
void declared(CUstream stream, void** buffers, const char* opaque, size_t opaque_len,
              xla::XlaCustomCallStatus* status);

void make() {
  xla::XlaBuilder b("failing");
  xla::XlaOp x = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(F32, {}), "x");
  xla::CustomCall(&b, "may_fail", /*operands=*/{x},
                  /*output_shape=*/xla::ShapeUtil::MakeShape(F32, {}),
                  std::string("opaque"), /*has_side_effect=*/false,
                  /*output_operand_aliasing=*/{}, /*literal=*/nullptr,
                  /*schedule=*/xla::CustomCallSchedule::SCHEDULE_NONE,
                  /*api_version=*/API_VERSION_STATUS_RETURNING);
  Keep(b);
}

}  // namespace failing

namespace unified {

static std::string seen;

void with_opaque(void* out, const void** in, const char* opaque, size_t opaque_len,
                 XlaCustomCallStatus* status) {
  seen.assign(opaque, opaque_len);
  std::memcpy(out, in[0], sizeof(float));
  if (seen.empty()) XlaCustomCallStatusSetFailure(status, "no opaque", 9);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(with_opaque, "Host");

void make(const std::string& opaque) {
  xla::XlaBuilder b("unified");
  xla::XlaOp x = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(F32, {}), "x");
  xla::CustomCall(&b, "with_opaque", {x}, xla::ShapeUtil::MakeShape(F32, {}), opaque, false, {},
                  nullptr, xla::SCHEDULE_NONE, xla::API_VERSION_STATUS_RETURNING_UNIFIED);
  Keep(b);
}

}  // namespace unified

namespace tuples {

void with_tuples(void* out, const void** in) {
  // The root of the operand contains three pointers. The second pointer refers to a tuple of two pointers.
  const void* const* root = static_cast<const void* const*>(in[0]);
  const void* const* inner = static_cast<const void* const*>(root[1]);
  void* const* outs = static_cast<void* const*>(out);
  static_cast<float*>(outs[0])[511] = static_cast<const float*>(inner[1])[127];
  static_cast<float*>(outs[1])[1023] = 1;  // Scratch memory, which is not read.
}
XLA_REGISTER_CUSTOM_CALL_TARGET(with_tuples, "Host");

void make() {
  xla::XlaBuilder b("tuples");
  using xla::F32;
  using xla::ShapeUtil;
  Shape nested = ShapeUtil::MakeTuple({
      ShapeUtil::MakeShape(F32, {32}),
      ShapeUtil::MakeTuple({
          ShapeUtil::MakeShape(F32, {64}),
          ShapeUtil::MakeShape(F32, {128}),
      }),
      ShapeUtil::MakeShape(F32, {256}),
  });
  xla::XlaOp p0 = xla::Parameter(0, nested, "p0");
  Shape out = ShapeUtil::MakeTuple({
      ShapeUtil::MakeShape(F32, {512}),
      ShapeUtil::MakeShape(F32, {1024}),
  });
  xla::XlaOp call = xla::CustomCall(&b, "with_tuples", /*operands=*/{p0}, out);
  xla::GetTupleElement(call, 0);
  Keep(b);
}

}  // namespace tuples

namespace typed {

using BufferF32 = xla::ffi::BufferR1<xla::ffi::DataType::F32>;

xla::ffi::Error tiled_add(BufferF32 tile, BufferF32 wide, float bias,
                          xla::ffi::Result<BufferF32> out) {
  for (size_t i = 0; i < wide.element_count(); ++i) {
    out->typed_data()[i] =
        tile.typed_data()[i % tile.element_count()] + wide.typed_data()[i] + bias;
  }
  return xla::ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(handler, tiled_add, xla::ffi::Ffi::Bind()
                                               .Arg<BufferF32>()
                                               .Arg<BufferF32>()
                                               .Attr<float>("bias")
                                               .Ret<BufferF32>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "tiled_add", "Host", handler);

void make() {
  xla::XlaBuilder b("typed");
  xla::XlaOp tile = xla::Parameter(&b, 0, xla::ShapeUtil::MakeShape(xla::F32, {128}), "tile");
  xla::XlaOp wide = xla::Parameter(&b, 1, xla::ShapeUtil::MakeShape(xla::F32, {2048}), "wide");
  xla::CustomCall(&b, "tiled_add", /*operands=*/{tile, wide},
                  /*shape=*/xla::ShapeUtil::MakeShape(xla::F32, {2048}),
                  /*opaque=*/"{bias = 1.0 : f32}", /*has_side_effect=*/false,
                  /*output_operand_aliasing=*/{{{}, {1, {}}}}, /*literal=*/nullptr,
                  /*schedule=*/CustomCallSchedule::SCHEDULE_NONE,
                  /*api_version=*/CustomCallApiVersion::API_VERSION_TYPED_FFI);
  Keep(b);
}

}  // namespace typed

#define CHECK(condition)                                         \
  if (!(condition)) {                                            \
    std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
    return 1;                                                    \
  }

static xla::Literal Ramp(int64_t size) {
  xla::Literal ramp(xla::ShapeUtil::MakeShape(xla::F32, {size}));
  for (int64_t i = 0; i < size; ++i) ramp.data<float>()[i] = static_cast<float>(i);
  return ramp;
}

static bool Adds(const xla::Literal& sum, float bias = 0) {
  for (int i = 0; i < 2048; ++i) {
    if (sum.data<float>()[i] != static_cast<float>(i % 128 + i) + bias) return false;
  }
  return sum.data<float>().size() == 2048;
}

// Builds a program with the functions of the builder that the documents do not show.
static int Everything() {
  using xla::LiteralUtil;
  using xla::ShapeUtil;
  xla::XlaBuilder inner("inner");
  xla::Parameter(&inner, 0, ShapeUtil::MakeScalarShape(xla::S32), "x");
  xla::XlaComputation called = inner.Build().value();

  xla::XlaBuilder b("everything");
  CHECK(xla::XlaBuilder::Newest() == &b);
  Shape column = ShapeUtil::MakeShapeWithDenseLayout(xla::F64, {2, 3}, {0, 1});
  xla::XlaOp matrix = xla::Parameter(&b, 0, ShapeUtil::MakeShape(xla::F64, {2, 3}), "matrix");
  xla::XlaOp one = xla::ConstantR0<int32_t>(&b, 1);
  xla::XlaOp row = xla::ConstantR1<std::complex<float>>(&b, {{1, 2}, {3, 4}});
  xla::XlaOp grid = xla::ConstantLiteral(&b, LiteralUtil::CreateR2<bool>({{true}, {false}}));
  xla::XlaOp token = xla::CreateToken(&b);
  xla::XlaOp pair = xla::Tuple(&b, {one, xla::Tuple(&b, {row, grid, token})});
  CHECK(b.GetShape(pair)->ToString() == "(s32[], (c64[2], pred[2,1], token[]))");
  CHECK(*b.GetShape(pair) == ShapeUtil::MakeTupleShape(
                                 {ShapeUtil::MakeScalarShape(xla::S32),
                                  ShapeUtil::MakeTupleShape({ShapeUtil::MakeShape(xla::C64, {2}),
                                                             ShapeUtil::MakeShape(xla::PRED, {2, 1}),
                                                             ShapeUtil::MakeTokenShape()})}));
  xla::Literal literal = LiteralUtil::CreateR1<float>({1, 2});
  xla::XlaOp laid_out = xla::CustomCallWithLayout(
      &b, "laid_out", {matrix}, column, {column}, "", /*has_side_effect=*/true, {{{}, {0, {}}}},
      &literal, xla::SCHEDULE_LATEST, xla::API_VERSION_TYPED_FFI);
  xla::XlaOp nested = xla::GetTupleElement(xla::GetTupleElement(pair, 1), 0);
  xla::XlaOp calls = xla::CustomCallWithComputation(
      &b, "calls", {nested, laid_out}, called, ShapeUtil::MakeNil(), "opaque", true, {}, nullptr,
      xla::SCHEDULE_EARLIEST, xla::API_VERSION_STATUS_RETURNING_UNIFIED);
  xla::CustomCallWithComputationAndLayouts(&b, "both", {matrix}, called, column, {column});
  xla::XlaComputation program = b.Build(xla::Tuple(&b, {pair, calls})).value();
  const std::string hlo = *program.ToHloText();
  for (const char* part :
       {"f64[2,3]{0,1} custom-call(%matrix), custom_call_target=\"laid_out\", "
        "operand_layout_constraints={f64[2,3]{0,1}}, custom_call_has_side_effect=true, "
        "literal=f32[2]{0} {1.0, 2.0}, output_to_operand_aliasing={{}: (0, {})}, "
        "schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, backend_config={}",
        "called_computations={%inner}, custom_call_has_side_effect=true, "
        "schedule=SCHEDULE_EARLIEST, api_version=API_VERSION_STATUS_RETURNING_UNIFIED, "
        "backend_config=\"opaque\"",
        "constant({(1.0, 2.0), (3.0, 4.0)})", "constant({{true}, {false}})"}) {
    CHECK(hlo.find(part) != std::string::npos);
  }

  // The builder reports all mistakes together, with the instructions' names.
  xla::XlaBuilder wrong("wrong");
  xla::XlaOp x = xla::Parameter(&wrong, 1, ShapeUtil::MakeShape(xla::F32, {2}), "x");
  xla::GetTupleElement(x, 0);
  xla::CustomCall(&wrong, "t", {matrix}, ShapeUtil::MakeShape(xla::F32, {2}));
  xla::CustomCallWithLayout(&wrong, "t", {x}, ShapeUtil::MakeShape(xla::F32, {2}), {});
  const xla::Status mistakes = wrong.Build().status();
  CHECK(mistakes.code() == XLA_FFI_Error_Code_INVALID_ARGUMENT);
  for (const char* part : {"'x': this is parameter 1", "element 0 of a tuple",
                           "operand 0 is not an instruction", "layouts of 0 operands"}) {
    CHECK(mistakes.message().find(part) != std::string::npos);
  }
  CHECK(!wrong.Build().ok());
  xla::XlaBuilder bad("bad");
  xla::Parameter(&bad, 0, ShapeUtil::MakeShape(xla::F32, {-1}), "x");
  CHECK(!bad.Build().ok() && !bad.first_error().ok());
  CHECK(!xla::XlaBuilder("empty").Build().ok());
  return 0;
}

int main() {
  original::make();
  std::printf("%s", built.ToHloText()->c_str());
  CHECK(Adds(*xla_ffi::Run(built, {Ramp(128), Ramp(2048)})));
  xla::StatusOr<xla::Literal> wrong = xla_ffi::Run(built, {Ramp(128), Ramp(2047)});
  CHECK(!wrong.ok() && wrong.status().message().find("f32[2047] came") != std::string::npos);

  device::make();
  auto on_device = xla_ffi::Executable::Compile(built, "CUDA", XFFI_RT_TUPLES_TODAY, true);
  CHECK(Adds(*on_device->Run({Ramp(128), Ramp(2048)})));
  CHECK(device::seen == std::string("any\0bytes", 9));

  failing::make();
  CHECK(xla_ffi::Run(built, {xla::LiteralUtil::CreateR0<float>(3)})->data<float>()[0] == 3);
  failing::fail = true;
  xla::StatusOr<xla::Literal> failed = xla_ffi::Run(built, {xla::LiteralUtil::CreateR0<float>(3)});
  CHECK(!failed.ok() && failed.status().message() == "it did not \"work\"");

  unified::make(std::string("\0bytes", 6));
  CHECK(xla_ffi::Run(built, {xla::LiteralUtil::CreateR0<float>(3)})->data<float>()[0] == 3);
  CHECK(unified::seen == std::string("\0bytes", 6));
  unified::make("");
  failed = xla_ffi::Run(built, {xla::LiteralUtil::CreateR0<float>(3)});
  CHECK(!failed.ok() && failed.status().message() == "no opaque");

  tuples::make();
  std::printf("%s", built.ToHloText()->c_str());
  // Calls without layouts are printed with row-major layouts, because XLA would choose other layouts.
  CHECK(built.ToHloText()->find("operand_layout_constraints={(f32[32]{0}, (f32[64]{0}, "
                                "f32[128]{0}), f32[256]{0})}") != std::string::npos);
  auto roots = xla_ffi::Executable::Compile(built, "Host", XFFI_RT_TUPLES_CPU_ROOTS);
  xla::Literal tuple = xla::LiteralUtil::MakeTuple(
      {Ramp(32), xla::LiteralUtil::MakeTuple({Ramp(64), Ramp(128)}), Ramp(256)});
  CHECK(roots->Run({tuple})->data<float>()[511] == 127);

  typed::make();
  CHECK(built.ToStableHlo()->find("api_version = 4") != std::string::npos);
  CHECK(Adds(*xla_ffi::Run(built, {Ramp(128), Ramp(2048)}), 1));
  if (Everything() != 0) return 1;
  std::printf("done\n");
  return 0;
}
