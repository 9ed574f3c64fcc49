//! Tests C++ sources that need a separate program, with our headers and with XLA's.

use crate::Headers;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::{compiler::cpp_compilers, headers};

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_coverage");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

/// Builds and runs a program with each set of headers.
fn both(test: &str, text: &str) {
    let Some(upstream) = headers::newest(test) else {
        return;
    };
    let source = out(&format!("{test}.cc"));
    std::fs::write(&source, text).expect("the target folder");
    for compiler in cpp_compilers(test) {
        for (kind, headers, flags) in [
            (
                "ours",
                Headers::Ours,
                ["-Wall", "-Wextra", "-pedantic", "-Werror"].as_slice(),
            ),
            (
                "theirs",
                Headers::Upstream(upstream.clone()),
                ["-w"].as_slice(),
            ),
        ] {
            let program = out(&format!("{test}-{compiler}-{kind}"));
            let output = Command::new(compiler)
                .args(["-std=c++17", "-pthread"])
                .args(flags)
                .args(headers.flags())
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .output()
                .expect("the compiler runs");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler}, {kind}: {error}");
            let status = Command::new(&program).status().expect("it runs");
            assert!(status.success(), "{compiler}, {kind}: {status}");
        }
    }
}

/// Our headers include the standard headers that sources expect from upstream's.
#[test]
fn headers_include_the_standard_headers() {
    both(
        "headers_include_the_standard_headers",
        "#include \"xla/ffi/api/ffi.h\"\n\
         int main() {\n\
           std::array<int, 2> a{2, 1}; std::sort(a.begin(), a.end()); assert(a[0] == 1);\n\
           std::atomic<int> n{0}; std::complex<float> c{1, 2}; std::function<int()> f = [] { return 1; };\n\
           std::initializer_list<int> list = {1}; std::unique_ptr<int> p(new int(1));\n\
           std::vector<int> v; std::copy(list.begin(), list.end(), std::back_inserter(v));\n\
           std::optional<int> o; std::ostringstream s; s << c; std::string t(s.str());\n\
           std::string_view w(t); std::tuple<int, int> u; std::variant<int, float> x; std::mutex m;\n\
           std::int64_t sum = std::accumulate(v.begin(), v.end(), std::int64_t{0});\n\
           std::size_t most = std::numeric_limits<std::size_t>::max(); std::cout << std::flush;\n\
           static_assert(std::is_same_v<int, std::decay_t<const int&>>);\n\
           const std::lock_guard<std::mutex> lock(m);\n\
           if (o || std::get<0>(u) != 0 || x.index() != 0 || w.empty() || !most) std::abort();\n\
           return static_cast<int>(sum) - f() + n + std::exchange(*p, 0) - 1; }\n",
    );
}

/// Versions, types, metadata and bundles of handlers are equal if all of their fields are equal.
#[test]
fn structs_are_compared_by_their_fields() {
    both(
        "structs_are_compared_by_their_fields",
        "#include \"xla/ffi/api/ffi.h\"\n\
         template <typename T, typename F> static int Differs(F change) {\n\
           T a{}, b{}; if (!(a == b) || a != b) return 0; change(a); return a != b && !(a == b); }\n\
         static XLA_FFI_Error* Some(XLA_FFI_CallFrame*) { return nullptr; }\n\
         int main() {\n\
           using M = XLA_FFI_Metadata; using B = XLA_FFI_Handler_Bundle;\n\
           return Differs<M>([](M& m) { m.api_version.major_version = 1; }) +\n\
                  Differs<M>([](M& m) { m.api_version.minor_version = 1; }) +\n\
                  Differs<M>([](M& m) { m.traits = 1; }) +\n\
                  Differs<M>([](M& m) { m.state_type_id.type_id = 1; }) +\n\
                  Differs<B>([](B& b) { b.instantiate = Some; }) + Differs<B>([](B& b) { b.prepare = Some; }) +\n\
                  Differs<B>([](B& b) { b.initialize = Some; }) + Differs<B>([](B& b) { b.execute = Some; }) - 8; }\n",
    );
}

/// A program that is linked with XLA defines `GetXlaFfiApi` and registers its handlers before `main`.
///
/// The program replaces `malloc` for the whole process, so it also checks that decoding does not allocate.
#[test]
fn statically_linked_code_registers_itself() {
    both(
        "statically_linked_code_registers_itself",
        "#include <cstring>\n\
         #include \"xla/ffi/api/ffi.h\"\n\
         namespace ffi = xla::ffi;\n\
         namespace xla::ffi { const XLA_FFI_Api* GetXlaFfiApi(); }\n\
         static std::vector<std::string>& Seen() { static auto* seen = new std::vector<std::string>; return *seen; }\n\
         static XLA_FFI_Error* Register(XLA_FFI_Handler_Register_Args* args) {\n\
           // Up to 0.9.1, the arguments are shorter, because they have no record handler.\n\
           const size_t at = args->struct_size >= XLA_FFI_Handler_Register_Args_STRUCT_SIZE\n\
             ? offsetof(XLA_FFI_Handler_Register_Args, traits) : args->struct_size - sizeof(XLA_FFI_Handler_Traits);\n\
           XLA_FFI_Handler_Traits traits; std::memcpy(&traits, reinterpret_cast<const char*>(args) + at, sizeof(traits));\n\
           Seen().push_back(std::string(args->name.ptr, args->name.len) + '@' +\n\
                            std::string(args->platform.ptr, args->platform.len) + (traits ? \"+\" : \"\"));\n\
           return nullptr; }\n\
         static XLA_FFI_Error* RegisterType(XLA_FFI_Type_Register_Args* args) {\n\
           args->type_id->type_id = 7; Seen().push_back(std::string(args->name.ptr, args->name.len)); return nullptr; }\n\
         const XLA_FFI_Api* xla::ffi::GetXlaFfiApi() {\n\
           static XLA_FFI_Api api = [] { XLA_FFI_Api made{}; made.struct_size = XLA_FFI_Api_STRUCT_SIZE;\n\
             made.api_version.major_version = XLA_FFI_API_MAJOR; made.api_version.minor_version = XLA_FFI_API_MINOR;\n\
             made.XLA_FFI_Handler_Register = Register; made.XLA_FFI_Type_Register = RegisterType;\n\
             made.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args*) -> XLA_FFI_Error* { return nullptr; };\n\
             return made; }();\n\
           return &api; }\n\
         struct Kept { static ffi::TypeId id; };\n\
         ffi::TypeId Kept::id = {};\n\
         static ffi::Error Nothing() { return ffi::Error::Success(); }\n\
         XLA_FFI_DEFINE_HANDLER(kNothing, Nothing, ffi::Ffi::Bind());\n\
         XLA_FFI_REGISTER_HANDLER(ffi::GetXlaFfiApi(), \"one\", \"Host\", kNothing);\n\
         XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), \"two\", \"CUDA\",\n\
           {/*instantiate=*/nullptr, /*prepare=*/nullptr, /*initialize=*/nullptr, /*execute=*/kNothing, /*record=*/nullptr});\n\
         XLA_FFI_REGISTER_HANDLER(ffi::GetXlaFfiApi(), \"three\", \"Host\", kNothing,\n\
           XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);\n\
         XLA_FFI_REGISTER_TYPE(ffi::GetXlaFfiApi(), \"kept\", &Kept::id, ffi::MakeTypeInfo<Kept>());\n\
         #ifdef XLA_FFI_SDK_FFI_H_  // our headers decode without heap memory\n\
         static int allocations = 0;\n\
         extern \"C\" void* __libc_malloc(size_t);\n\
         extern \"C\" void* malloc(size_t size) { ++allocations; return __libc_malloc(size); }\n\
         struct Loose { int64_t n; std::optional<double> x; };\n\
         XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Loose, xla::ffi::StructMember<int64_t>(\"n\"),\n\
                                               xla::ffi::StructMember<std::optional<double>>(\"x\"));\n\
         static int64_t seen = 0;\n\
         static ffi::Error See(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::F32> y, Loose loose) {\n\
           seen = loose.n + static_cast<int64_t>(x.element_count() + y->element_count()); return ffi::Error::Success(); }\n\
         XLA_FFI_DEFINE_HANDLER(kSee, See, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>(\"x\").Ret<ffi::Buffer<ffi::F32>>(\"y\")\n\
                                               .Attrs<Loose>().Shape(XLA_FFI_SHAPE(\"m -> m\")));\n\
         static bool DecodesInPlace() {\n\
           float memory[2][3] = {}; int64_t dims[] = {3}, number = 36; XLA_FFI_Buffer buffers[2] = {};\n\
           for (int i = 0; i < 2; ++i) {\n\
             buffers[i].struct_size = XLA_FFI_Buffer_STRUCT_SIZE; buffers[i].dtype = XLA_FFI_DataType_F32;\n\
             buffers[i].data = memory[i]; buffers[i].rank = 1; buffers[i].dims = dims; }\n\
           void *arg = &buffers[0], *ret = &buffers[1]; XLA_FFI_ArgType arg_type = XLA_FFI_ArgType_BUFFER;\n\
           XLA_FFI_RetType ret_type = XLA_FFI_RetType_BUFFER; XLA_FFI_AttrType attr_type = XLA_FFI_AttrType_SCALAR;\n\
           XLA_FFI_Scalar scalar = {XLA_FFI_DataType_S64, &number}; void* attr = &scalar;\n\
           XLA_FFI_ByteSpan name = {\"n\", 1}, *names = &name; XLA_FFI_CallFrame frame = {};\n\
           frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE; frame.api = xla::ffi::GetXlaFfiApi();\n\
           frame.stage = XLA_FFI_ExecutionStage_EXECUTE;\n\
           frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, 1, &arg_type, &arg};\n\
           frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, 1, &ret_type, &ret};\n\
           frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, &attr_type, &names, &attr};\n\
           kSee(&frame); const int before = allocations; XLA_FFI_Error* error = kSee(&frame);\n\
           const int after = allocations; std::string counted(100, 'x');\n\
           return error == nullptr && seen == 42 && before == after && allocations > after && counted[99] == 'x'; }\n\
         #else\n\
         static bool DecodesInPlace() { return true; }\n\
         #endif\n\
         int main() {\n\
           std::vector<std::string> want{\"one@Host\", \"two@CUDA\", \"three@Host+\", \"kept\"};\n\
           return Seen() == want && Kept::id.type_id == 7 && DecodesInPlace() ? 0 : 1; }\n",
    );
}
