//! Tests the C++ headers together with macros of other headers, and with warnings as errors.

use crate::Headers;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::{compiler::cpp_compilers, headers as jaxlib, root};

/// Compiles a text, and links the result unless `flags` prevent linking.
fn compile(compiler: &str, name: &str, text: &str, flags: &[&str]) -> (PathBuf, Output) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_surroundings");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let source = folder.join(format!("{name}.cc"));
    std::fs::write(&source, text).expect("the target folder");
    let program = folder.join(format!("{name}-{compiler}"));
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-pthread"]).args(flags);
    command.args(Headers::Ours.flags()).arg(&source);
    if !flags.contains(&"-fsyntax-only") {
        command.arg("-o").arg(&program);
    }
    (program, command.output().expect("the compiler runs"))
}

/// Returns an `#include` for each public header, in sorted order.
///
/// In this order, `invocation.h` follows headers that have statics with destructors, for which GCC declares additional
/// names.
fn headers() -> String {
    let mut all: Vec<String> = vec![];
    let mut folders = vec![root().join("include/xla"), root().join("include/xla_ffi")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("include/") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("xla_ffi/cpp") {
                folders.push(path);
            } else if path.extension().is_some_and(|is| is == "h") {
                let below = path.strip_prefix(root().join("include"));
                all.push(below.expect("below include").display().to_string());
            }
        }
    }
    all.sort();
    all.iter()
        .map(|header| format!("#include \"{header}\"\n"))
        .collect()
}

/// The headers compile after `windows.h`, which defines `min`, `max` and obsolete short words as macros.
#[test]
fn headers_compile_after_conflicting_macros() {
    let before = "#include <algorithm>\n#include <array>\n#include <atomic>\n#include <chrono>\n#include <cmath>\n\
        #include <complex>\n#include <condition_variable>\n#include <cxxabi.h>\n#include <deque>\n#include <dlfcn.h>\n\
        #include <functional>\n#include <iostream>\n#include <limits>\n#include <map>\n#include <memory>\n#include <mutex>\n\
        #include <numeric>\n#include <optional>\n#include <random>\n#include <set>\n#include <sstream>\n#include <thread>\n\
        #include <tuple>\n#include <unordered_map>\n#include <variant>\n#include <vector>\n\
        #define min(a, b) (((a) < (b)) ? (a) : (b))\n#define max(a, b) (((a) > (b)) ? (a) : (b))\n";
    let words = "#define IN\n#define OUT\n#define OPTIONAL\n#define near\n#define far\n#define small char\n\
        #define interface struct\n#define ERROR 0\n#define NO_ERROR 0\n#define DELETE 0x1\n#define TRUE 1\n\
        #define FALSE 0\n#define BOOL int\n#define CONST const\n#define VOID void\n#define Yield()\n";
    // The internal API and the external API cannot be combined in one file.
    let (internal, external): (Vec<&str>, Vec<&str>) = {
        let of_internal = |line: &&str| {
            !line.contains("xla/ffi/api/") && !line.contains("xla_ffi/") && line.contains("xla/")
        };
        let all = Box::leak(headers().into_boxed_str());
        all.lines().partition(of_internal)
    };
    for compiler in cpp_compilers("headers_compile_after_conflicting_macros") {
        for (name, includes) in [("internal", &internal), ("external", &external)] {
            assert!(includes.len() > 5, "{includes:?}");
            let text = format!("{before}{words}{}\n", includes.join("\n"));
            let (_, done) = compile(compiler, name, &text, &["-fsyntax-only"]);
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler} {name}: {told}");
        }
    }
}

/// The C header also compiles within `extern "C"`, in which users may include the header.
#[test]
fn the_c_header_compiles_within_extern_c() {
    let text = "extern \"C\" {\n#include \"xla_ffi/handler.h\"\n}\n\
        static XLA_FFI_Error* scale(xffi_call* call) {\n\
          const xffi_buffer x = xffi_arg(call, \"x\", XLA_FFI_DataType_F32, 1);\n\
          xffi_promise* promise = xffi_promise_new(call);\n\
          if (x.count == xffi_attr_i64(call, \"n\")) xffi_promise_done(promise);\n\
          if (XLA_FFI_Error* error = xffi_decoded(call)) return error;\n\
          return xffi_promise_return(call, promise); }\n\
        XFFI_HANDLER(scaled, scale);\n";
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"];
    for compiler in cpp_compilers("the_c_header_compiles_within_extern_c") {
        for more in ["-fexceptions", "-fno-exceptions"] {
            let flags = [&strict[..], &[more, "-shared", "-fPIC"]].concat();
            let (_, done) = compile(compiler, "within", text, &flags);
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler} {more}: {told}");
        }
    }
}

/// Handlers that bind nothing, no attributes, or only attributes, compile without warnings, including their library's
/// registration.
#[test]
fn minimal_handlers_compile_without_a_warning() {
    let text = "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
        struct Kept { static ffi::TypeId id; };\nffi::TypeId Kept::id{};\n\
        static ffi::ErrorOr<std::unique_ptr<Kept>> Make() { return std::make_unique<Kept>(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(make, Make, ffi::Ffi::BindInstantiate());\n\
        static ffi::Error Use(Kept*) { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(use, Use, ffi::Ffi::Bind().Ctx<ffi::State<Kept>>());\n\
        static ffi::Error Nothing() { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(nothing, Nothing, ffi::Ffi::Bind());\n\
        static ffi::Error Read(ffi::AnyBuffer) { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(read, Read, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>());\n\
        static ffi::Error Fill(ffi::Result<ffi::AnyBuffer>) { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(fill, Fill, ffi::Ffi::Bind().Ret<ffi::AnyBuffer>());\n\
        static ffi::Error All(ffi::Dictionary) { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(all, All, ffi::Ffi::Bind().Attrs());\n\
        static ffi::Error One(int64_t) { return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(one, One, ffi::Ffi::Bind().Attr<int64_t>(\"n\"));\n\
        XLA_FFI_LIBRARY(few, XLA_FFI_HANDLER(use, make), XLA_FFI_HANDLER(nothing), XLA_FFI_HANDLER(read),\n\
                        XLA_FFI_HANDLER(fill), XLA_FFI_HANDLER(all), XLA_FFI_HANDLER(one));\n";
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"];
    for compiler in cpp_compilers("minimal_handlers_compile_without_a_warning") {
        for more in ["-fexceptions", "-fno-exceptions"] {
            let flags = [&strict[..], &[more, "-fsyntax-only"]].concat();
            let (_, done) = compile(compiler, "few", text, &flags);
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler} {more}: {told}");
        }
    }
}

/// C++ code for the calls of a test without a runtime: the function table and the frame of a host whose errors are all
/// the same object. The frame has no operands and no attributes.
const HOST: &str = r#"
#include <cstdio>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct XLA_FFI_Error {};
static XLA_FFI_Error failed;
struct Call {
  XLA_FFI_Api api{};
  XLA_FFI_CallFrame frame{};
  explicit Call(XLA_FFI_ExecutionStage stage) {
    api.struct_size = sizeof(api);
    api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, 0, 6};
    api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args*) { return &failed; };
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &api;
    frame.ctx = reinterpret_cast<XLA_FFI_InvokeContext*>(&api);
    frame.stage = stage;
    frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
    frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
    frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  }
};
"#;

/// A newer minor version of an extension is accepted; a different major version is rejected.
///
/// The struct's size and its functions determine which features are available.
#[test]
fn extensions_of_a_newer_minor_version_are_accepted() {
    let text = r#"
#include "xla/ffi/api/collectives_api.h"
#include "xla/ffi/api/record_api.h"
static auto* const kCommunicator = reinterpret_cast<XLA_FFI_Communicator*>(0xC0FFEE);
static int windows = -1;
static ffi::Error Ask(ffi::CommunicatorContext comm) {
  auto got = comm.GetCommunicator(ffi::GroupMode::kFlattenedId, {{0, 1}}, 7);
  if (got.has_error()) return got.error();
  windows = comm.GetWindow(ffi::GroupMode::kFlattenedId, {{0, 1}}, 7, &got).has_value();
  return got.value() == kCommunicator ? ffi::Error() : ffi::Error::Internal("a different communicator");
}
XLA_FFI_DEFINE_HANDLER(kAsk, Ask, ffi::Ffi::Bind().Ctx<ffi::Extension<ffi::CollectivesExtension>>());
static ffi::Error Capture(ffi::RecordContext record) { return record.RequestStreamCapture(); }
XLA_FFI_DEFINE_HANDLER(kCapture, Capture, ffi::Ffi::BindRecord().Ctx<ffi::Extension<ffi::RecordExtension>>());
template <typename T>
struct Newer { T known; void* more[2]; };  // two functions that the headers do not know
static XLA_FFI_Extension* found = nullptr;
static bool Runs(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
  Call call(stage);
  call.api.XLA_FFI_InvokeContext_FindExtension = [](XLA_FFI_InvokeContext_FindExtension_Args* a) -> XLA_FFI_Error* {
    a->extension = found;
    return nullptr;
  };
  return handler(&call.frame) == nullptr;
}
int main() {
  static Newer<XLA_FFI_Collectives_Extension> collectives{};
  collectives.known.get_communicator = [](const XLA_FFI_Collectives_Extension*,
                                          XLA_FFI_Communicator_Get_Args* a) -> XLA_FFI_Error* {
    a->communicator = kCommunicator;
    return nullptr;
  };
  static XLA_FFI_RecordApi recorder{};
  recorder.request_stream_capture = [](XLA_FFI_RecordContext*) -> XLA_FFI_Error* { return nullptr; };
  static XLA_FFI_RecordFrame record_frame{};
  record_frame.api = &recorder;
  static Newer<XLA_FFI_Record_Extension> record{};
  record.known.record_frame = &record_frame;
  for (const int32_t minor : {1, 3, 7}) {
    for (const int32_t major : {0, 1}) {
      found = &collectives.known.extension_base;
      *found = {sizeof(collectives), {XLA_FFI_Extension_Collectives, major, minor}, nullptr};
      const bool collects = Runs(kAsk, XLA_FFI_ExecutionStage_EXECUTE);
      found = &record.known.extension_base;
      *found = {sizeof(record), {XLA_FFI_Extension_Record, major, minor}, nullptr};
      const bool records = Runs(kCapture, XLA_FFI_ExecutionStage_RECORD);
      std::printf("%d.%d %d %d\n", major, minor, collects, records);
    }
  }
  // Windows of collective memory need functions that this host does not have.
  std::printf("windows %d\n", windows);
}
"#;
    let text = [HOST, text].concat();
    for compiler in cpp_compilers("extensions_of_a_newer_minor_version_are_accepted") {
        let (program, done) = compile(compiler, "newer_minor", &text, &[]);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler}: {told}");
        let run = Command::new(program).output().expect("it runs");
        let printed = String::from_utf8_lossy(&run.stdout).replace('\n', ", ");
        let expected = "0.1 1 1, 1.1 0 0, 0.3 1 1, 1.3 0 0, 0.7 1 1, 1.7 0 0, windows 0, ";
        assert_eq!(printed, expected, "{compiler}");
    }
}

/// Tests the names of the collectives extension in XLA's own source tree, on hosts with and without device
/// communicators: an older version, a shorter struct, null functions.
#[test]
fn device_communicators_are_unimplemented_without_version_0_3() {
    let text = r#"
#include <cstdio>
#include "xla/ffi/api/collectives_ffi.h"
#include "xla/ffi/api/record_ffi.h"
namespace ffi = xla::ffi;
using Extension = XLA_FFI_Collectives_Extension;
static ffi::Error Bound(ffi::Communicator) { return ffi::Error(); }
XLA_FFI_DEFINE_HANDLER(kBound, Bound, ffi::Ffi::Bind().Ctx<ffi::Extension<ffi::Collectives>>());
static const std::vector<std::vector<int64_t>> kGroups = {{0, 2}, {1, 3}};
static int requested = -1, gotten = -1;
template <typename Args>
static int Barriers(const Args* a) {
  const XLA_FFI_DeviceCommunicator_Requirements& needs = *a->requirements;
  const bool right = a->extension_start == nullptr && a->group_mode == XLA_FFI_GROUP_FLATTENED_ID && a->num_groups == 2 &&
                     a->groups[0].ids[1] == 2 && a->groups[1].ids[1] == 3 && a->communication_id == 11 &&
                     needs.struct_size == 20 && needs.extension_start == nullptr;
  return right ? needs.lsa_barrier_count : -2;
}
static void Try(const char* name, const Extension& extension) {
  XLA_FFI_InternalExtension anything{};
  XLA_FFI_Api api{};
  api.struct_size = sizeof(api);
  api.extension_start = &anything;  // a host may have an unknown extension
  ffi::Communicator comm(&api, &extension);
  requested = gotten = -1;
  const ffi::Error error = comm.RequestDeviceCommunicator(ffi::GroupMode::kFlattenedId, kGroups, 11, {8});
  const auto found = comm.GetDeviceCommunicator(ffi::GroupMode::kFlattenedId, kGroups, 11, {8});
  std::printf("%s: %d %d, ", name, requested, gotten);
  if (error.success() && found.has_value()) {
    std::printf("%d %d %d\n", found->device_communicator == reinterpret_cast<XLA_FFI_DeviceCommunicator*>(0xD3C0DE),
                static_cast<int>(found->byte_size), found->version);
  } else {
    std::printf("%d %d\n", error.errc() == ffi::ErrorCode::kUnimplemented,
                found.has_error() && found.error().errc() == ffi::ErrorCode::kUnimplemented);
  }
  const auto plain = comm.GetCommunicator(ffi::GroupMode::kFlattenedId, kGroups, 11);
  if (!plain.has_value()) std::printf("no communicator\n");
}
int main() {
  Extension newest{};
  newest.extension_base = {sizeof(newest), {XLA_FFI_Extension_Collectives, 0, 3}, nullptr};
  newest.get_communicator = [](const Extension*, XLA_FFI_Communicator_Get_Args*) -> XLA_FFI_Error* { return nullptr; };
  newest.request_device_communicator = [](const Extension*, XLA_FFI_DeviceCommunicator_Request_Args* a) -> XLA_FFI_Error* {
    requested = a->struct_size == 56 ? Barriers(a) : -3;
    return nullptr;
  };
  newest.get_device_communicator = [](const Extension*, XLA_FFI_DeviceCommunicator_Get_Args* a) -> XLA_FFI_Error* {
    gotten = a->struct_size == 76 ? Barriers(a) : -3;
    a->device_communicator = reinterpret_cast<XLA_FFI_DeviceCommunicator*>(0xD3C0DE);
    a->byte_size = 256;
    a->version = 23203;
    return nullptr;
  };
  Try("newest", newest);
  Extension lacking = newest;
  lacking.extension_base.id.minor_version = 7;
  Try("newer", lacking);
  lacking.extension_base.id.minor_version = 2;
  Try("older", lacking);
  lacking = newest;
  lacking.extension_base.struct_size = offsetof(Extension, request_device_communicator);
  Try("shorter", lacking);
  lacking = newest;
  lacking.request_device_communicator = nullptr;
  lacking.get_device_communicator = nullptr;
  Try("null", lacking);
}
"#;
    let test = "device_communicators_are_unimplemented_without_version_0_3";
    for compiler in cpp_compilers(test) {
        let (program, done) = compile(compiler, "devices", text, &["-Wall", "-Wextra", "-Werror"]);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler}: {told}");
        let run = Command::new(program).output().expect("it runs");
        let printed = String::from_utf8_lossy(&run.stdout);
        let expected = "newest: 8 8, 1 256 23203\nnewer: 8 8, 1 256 23203\nolder: -1 -1, 1 1\n\
            shorter: -1 -1, 1 1\nnull: -1 -1, 1 1\n";
        assert_eq!(printed, expected, "{compiler}");
    }
}

/// Operators for types of the C API are those of our headers, even next to a file with XLA's headers.
///
/// XLA's operators abort the process for element types that its header does not know.
#[test]
fn operators_of_xla_headers_are_not_used() {
    let test = "operators_of_xla_headers_are_not_used";
    let Some(upstream) = jaxlib::newest(test).map(Headers::Upstream) else {
        return;
    };
    let text = "#include \"xla/ffi/api/ffi.h\"\n\
        std::string PRINT(XLA_FFI_DataType dtype) { std::ostringstream out; out << dtype; return out.str(); }\n";
    let main = "std::string Theirs(XLA_FFI_DataType);\n\
        int main() { std::cout << Theirs(XLA_FFI_DataType_F32) << Ours(static_cast<XLA_FFI_DataType>(99)); }\n";
    for compiler in cpp_compilers(test) {
        let object = |name: &str, text: &str, headers: &Headers| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_surroundings");
            std::fs::create_dir_all(&folder).expect("the target folder");
            let source = folder.join(format!("{name}.cc"));
            std::fs::write(&source, text.replace("PRINT", name)).expect("the target folder");
            let object = folder.join(format!("{name}-{compiler}.o"));
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-w", "-c", "-o"]).arg(&object);
            let done = command.args(headers.flags()).arg(&source).output();
            let done = done.expect("the compiler runs");
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler} {name}: {told}");
            object
        };
        // The linker keeps the first definition of each symbol.
        let objects = [
            object("Theirs", text, &upstream),
            object("Ours", &format!("{text}{main}"), &Headers::Ours),
        ];
        let program = objects[0].with_extension("program");
        let mut command = Command::new(compiler);
        command
            .arg("-pthread")
            .args(&objects)
            .arg("-o")
            .arg(&program);
        let done = command.output().expect("the linker runs");
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler}: {told}");
        let run = Command::new(program).output().expect("it runs");
        assert_eq!(
            String::from_utf8_lossy(&run.stdout),
            "F32unknown(99)",
            "{compiler}"
        );
    }
}

/// A result must not have the memory of another result, or of an argument of a different shape. The headers compare
/// more than four operands four at a time.
#[test]
fn results_with_the_memory_of_other_operands_are_refused() {
    let text = r#"
using In = ffi::BufferR1<ffi::F32>;
using Out = ffi::Result<In>;
static ffi::Error Three(In, Out, Out) { return {}; }
static ffi::Error Six(In, In, In, Out, Out, Out) { return {}; }
static ffi::Error Nine(In, In, In, In, In, Out, Out, Out, Out) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(three, Three);
XLA_FFI_DEFINE_HANDLER_SYMBOL(six, Six);
XLA_FFI_DEFINE_HANDLER_SYMBOL(nine, Nine);
// Calls a handler whose operands `i` and `j` have the same memory; the size of operand `i` is `size`.
static bool Accepts(XLA_FFI_Handler* handler, int args, int rets, int i, int j, int64_t size) {
  static double memory[16][2];
  int64_t dims[16];
  XLA_FFI_Buffer buffers[16];
  void* list[16];
  XLA_FFI_ArgType arg_types[16];
  XLA_FFI_RetType ret_types[16];
  for (int k = 0; k < args + rets; ++k) {
    dims[k] = k == i ? size : 1;
    buffers[k] = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, XLA_FFI_DataType_F32, memory[k == j ? i : k], 1, &dims[k]};
    list[k] = &buffers[k];
    arg_types[k] = XLA_FFI_ArgType_BUFFER;
    ret_types[k] = XLA_FFI_RetType_BUFFER;
  }
  Call call(XLA_FFI_ExecutionStage_EXECUTE);
  call.frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, args, arg_types, list};
  call.frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, rets, ret_types, list + args};
  return handler(&call.frame) == nullptr;
}
int main() {
  int pairs = 0;
  for (const auto& [handler, args, rets] : {std::tuple(&three, 1, 2), std::tuple(&six, 3, 3), std::tuple(&nine, 5, 4)}) {
    for (int j = 1; j < args + rets; ++j) {
      for (int i = 0; i < j; ++i) {
        for (int64_t size : {1, 2}) {
          const bool good = j < args || (i < args && size == 1);
          if (Accepts(handler, args, rets, i, j, size) == good) ++pairs;
          else std::printf("%d operands, %d and %d, size %d\n", args + rets, i, j, int(size));
        }
      }
    }
  }
  std::printf("%d pairs\n", pairs);
}
"#;
    let text = [HOST, text].concat();
    for compiler in cpp_compilers("results_with_the_memory_of_other_operands_are_refused") {
        for optimization in ["-O0", "-O2"] {
            let (program, done) = compile(compiler, "overlap", &text, &[optimization]);
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler}: {told}");
            let run = Command::new(program).output().expect("it runs");
            let printed = String::from_utf8_lossy(&run.stdout);
            assert_eq!(printed, "108 pairs\n", "{compiler} {optimization}");
        }
    }
}
