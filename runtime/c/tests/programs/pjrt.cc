// Programs on XLA in C++. The same program runs on the embedded runtime and on XLA, with typed and legacy targets;
// also StableHLO, HLO text and errors. The arguments are the plugin and the library of c_examples/execution.cc.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "xla/client/xla_builder.h"
#include "xla/ffi/api/ffi.h"
#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/embedded.h"

namespace ffi = xla::ffi;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

template <typename T>
T Right(xla::StatusOr<T> value, int line) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "line %d: %s\n", line, value.status().ToString().c_str());
  std::exit(1);
}
#define RIGHT(value) Right((value), __LINE__)

// Computes (a, b) -> (a + b, a), as an original custom call.
static void sums(void* out, const void** in) {
  float** outs = static_cast<float**>(out);
  outs[0][0] = *static_cast<const float*>(in[0]) + *static_cast<const float*>(in[1]);
  outs[1][0] = *static_cast<const float*>(in[0]);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(sums, "Host");

using Number = ffi::Buffer<ffi::F32, 0>;

static ffi::Error Scale(Number x, ffi::Result<Number> y, float by) {
  if (by == 0) return ffi::Error(ffi::ErrorCode::kOutOfRange, "by nothing");
  *y->typed_data() = by * *x.typed_data();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kScale, Scale,
                       ffi::Ffi::Bind().Arg<Number>("x").Ret<Number>("y").Attr<float>("by"));
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "pjrt_cc.scale", "Host", kScale);

static xla::Shape Scalar() { return xla::ShapeUtil::MakeShape(xla::F32, {}); }

static xla::Literal Value(float value) {
  xla::Literal literal(Scalar());
  literal.data<float>()[0] = value;
  return literal;
}

// Returns a program with two results: scale(a + b), with the attributes `by`, and a.
static xla::XlaComputation Program(const char* by) {
  xla::XlaBuilder b("both");
  xla::XlaOp x = xla::Parameter(&b, 0, Scalar(), "a");
  xla::XlaOp y = xla::Parameter(&b, 1, Scalar(), "b");
  xla::XlaOp pair = xla::CustomCall(&b, "sums", {x, y}, xla::ShapeUtil::MakeTupleShape({Scalar(), Scalar()}));
  xla::XlaOp scaled =
      xla::CustomCall(&b, "pjrt_cc.scale", {xla::GetTupleElement(pair, 0)}, Scalar(), by, false, {}, nullptr,
                      xla::SCHEDULE_NONE, xla::API_VERSION_TYPED_FFI);
  xla::Tuple(&b, {scaled, xla::GetTupleElement(pair, 1)});
  return RIGHT(b.Build());
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  CHECK(xla_ffi::Client::Open("no/such/plugin.so").status().code() == XLA_FFI_Error_Code_NOT_FOUND);
  const xla_ffi::Client client = RIGHT(xla_ffi::Client::Open(argv[1]));
  CHECK(client.platform() == "cpu");

  // With the plugin as an additional argument, the program returns the same results.
  const xla::XlaComputation program = Program("{by = 2.0 : f32}");
  const xla::XlaComputation read = RIGHT(xla::XlaComputation::FromHloText(*program.ToHloText()));
  CHECK(*read.ToHloText() == *program.ToHloText());
  for (const xla::Literal& result :
       {RIGHT(xla_ffi::Run(program, {Value(3), Value(4)})), RIGHT(xla_ffi::Run(program, {Value(3), Value(4)}, client)),
        RIGHT(xla_ffi::Run(read, {Value(3), Value(4)}, client))}) {
    CHECK(result.elements().size() == 2);
    CHECK(result.elements()[0].data<float>()[0] == 14 && result.elements()[1].data<float>()[0] == 3);
  }
  const xla_ffi::Executable executable = RIGHT(xla_ffi::Executable::Compile(program, client));
  for (float x : {1.f, 2.f}) {
    CHECK(RIGHT(executable.Run({Value(x), Value(1)})).elements()[0].data<float>()[0] == 2 * (x + 1));
  }

  // Tests an error of a handler, and literals whose shape differs from that of the parameter.
  for (bool real : {false, true}) {
    const xla::XlaComputation failing = Program("{by = 0.0 : f32}");
    const xla::Status status = (real ? xla_ffi::Run(failing, {Value(1), Value(1)}, client)
                                     : xla_ffi::Run(failing, {Value(1), Value(1)})).status();
    CHECK(status.code() == XLA_FFI_Error_Code_OUT_OF_RANGE);
    CHECK(status.message().find("by nothing") != std::string::npos);
  }
  CHECK(executable.Run({Value(1)}).status().code() == XLA_FFI_Error_Code_INVALID_ARGUMENT);
  const xla::Literal wide(xla::ShapeUtil::MakeShape(xla::F32, {2}));
  CHECK(executable.Run({Value(1), wide}).status().message().find("f32[2]") != std::string::npos);
  CHECK(!xla::XlaComputation::FromHloText("no HLO").ok());

  // Runs StableHLO that calls functions of this program.
  CHECK(client.Register("pjrt_cc.twice", kScale).ok());
  const xla_ffi::Loaded loaded = RIGHT(client.Compile(
      "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
      "  %0 = stablehlo.custom_call @pjrt_cc.twice(%x) {api_version = 4 : i32, backend_config = {by = 2.0 : f32}}\n"
      "      : (tensor<f32>) -> tensor<f32>\n"
      "  return %0 : tensor<f32>\n"
      "}\n"));
  const std::vector<xla::Literal> results = RIGHT(loaded.Run({Value(21)}));
  CHECK(results.size() == 1 && results[0].data<float>()[0] == 42);
  CHECK(!client.Compile("func").ok());
  CHECK(loaded.Run({}).status().code() == XLA_FFI_Error_Code_INVALID_ARGUMENT);
  CHECK(!loaded.Run({wide}).ok());
  const xla::Literal pair(xla::ShapeUtil::MakeTupleShape({Scalar(), Scalar()}));
  CHECK(loaded.Run({pair}).status().message().find("argument 0 is a tuple") != std::string::npos);
  CHECK(!client.Register("pjrt_cc.none", XLA_FFI_Handler_Bundle{}).ok());
  CHECK(!client.RegisterLibrary(nullptr).ok());
  // Registers all handlers of a library, with all their stages.
  xffi_rt* runtime = nullptr;
  xffi_rt_library* library = nullptr;
  CHECK(xffi_rt_create(XFFI_RT_NEWEST, &runtime) == nullptr);
  CHECK(xffi_rt_library_load(runtime, argv[2], &library) == nullptr);
  CHECK(client.RegisterLibrary(library).ok());
  const xla_ffi::Loaded counter = RIGHT(client.Compile(
      "func.func @main() -> tensor<i32> {\n"
      "  %0 = stablehlo.custom_call @counter() {api_version = 4 : i32, backend_config = {start = 5 : i32}}\n"
      "      : () -> tensor<i32>\n"
      "  return %0 : tensor<i32>\n"
      "}\n"));
  for (int32_t count : {5, 6}) CHECK(RIGHT(counter.Run({}))[0].data<int32_t>()[0] == count);
  xffi_rt_library_destroy(library);
  xffi_rt_destroy(runtime);
  std::printf("done\n");
  return 0;
}
