//! Tests hand-written C adapters for targets of the original custom calls.

use std::path::{Path, PathBuf};
use xla_ffi_runtime::{Attributes, Revision, Runtime, Stage, Tensor};
use xla_ffi_testing::compiler::shared_library;

/// A target that sums its opaque bytes. Its adapters pass ones as opaque bytes, 8 per element of the operand.
const SOURCE: &str = r#"
#include "xla_ffi/legacy/adapt.h"
static XLA_FFI_Error* size(const xffi_legacy_operands* o, xffi_legacy_opaque* q, char* to) {
  q->size = 8 * (size_t)o->args[0].count;
  memset(to, 1, q->size);
  return NULL;
}
static XLA_FFI_Error* local(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  return size(o, q, (char*)q->local);
}
static XLA_FFI_Error* elsewhere(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  static char ones[1024];
  (void)call;
  q->data = ones;
  return size(o, q, ones);
}
static XLA_FFI_Error* looks(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  (void)o;
  (void)q;
  return NULL;
}
static void sum(void* out, const void** in, const char* opaque, size_t size, XlaCustomCallStatus* status) {
  int64_t* y = (int64_t*)out;
  size_t i;
  (void)in;
  (void)status;
  y[0] = 0;
  for (i = 0; i < size; ++i) y[0] += opaque[i];
  y[1] = (int64_t)size;
}
#define ADAPT(name, describes, attribute) \
  static const xffi_legacy_adapter name##_adapter = { \
      .signature = XFFI_LEGACY_CPU_UNIFIED, .function = (void (*)(void))sum, .describe = describes, .opaque = attribute}; \
  XFFI_ADAPT(name, name##_adapter)
ADAPT(in_local, local, NULL);
ADAPT(in_elsewhere, elsewhere, NULL);
ADAPT(in_elsewhere_of_two, elsewhere, "a");
ADAPT(in_attribute, looks, "a");
"#;

/// Targets whose inputs are not const. The type of such a target is also that of a GPU target.
const UNIFIED: &str = r#"
#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/legacy/adapt.h"
static void sum(void* out, void** in, const char*, size_t size, XlaCustomCallStatus*) {
  *static_cast<float*>(out) = *static_cast<float*>(in[0]) + static_cast<float>(size);
}
static void quiet(void* out, void** in, const char* opaque, size_t size, XlaCustomCallStatus* status) noexcept {
  sum(out, in, opaque, size, status);
}
static void constant(void* out, const void** in, const char*, size_t size, XlaCustomCallStatus*) {
  *static_cast<float*>(out) = *static_cast<const float*>(in[0]) + static_cast<float>(size);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(sum, "Host");
XLA_REGISTER_CUSTOM_CALL_TARGET(quiet, "cpu");
XLA_REGISTER_CUSTOM_CALL_TARGET(constant, "Host");
XLA_REGISTER_CUSTOM_CALL_TARGET(sum, "CUDA");
XLA_REGISTER_CUSTOM_CALL_TARGET(quiet, "ROCM");
XFFI_ADAPT_CPU_UNIFIED(adapted, sum, "opaque");
XFFI_ADAPT_CPU_UNIFIED(adapted_quiet, quiet, "opaque");
XFFI_ADAPT_CPU_UNIFIED(adapted_constant, constant, "opaque");
"#;

/// Builds a library from one source.
fn library(test: &str, source: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join(source);
    std::fs::write(&source, text).unwrap();
    let mut flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    flags.push(format!("-I{}", env!("SDK_INCLUDE_DIR")));
    shared_library(&folder, test, &source, "adapters", &flags)
}

#[test]
fn unified_cpu_targets_may_have_non_const_pointers() {
    use xla_ffi_runtime::Tree;
    use xla_ffi_runtime::legacy::{ApiVersion, Invocation};
    let test = "unified_cpu_targets_may_have_non_const_pointers";
    let flags = ["-std=c++17", "-Wall", "-Werror"];
    let Some(library) = library(test, "unified.cc", UNIFIED, &flags) else {
        return;
    };
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&library).unwrap();
    assert_eq!(library.register_legacy().unwrap(), 5);
    for name in ["sum", "quiet", "constant"] {
        let target = runtime.find_legacy(name, "Host", ApiVersion::StatusReturningUnified);
        let target = target.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut x, mut y) = (1_f32, 0_f32);
        let operands = [Tree::Leaf((&raw mut x).cast())];
        let result = Tree::Leaf((&raw mut y).cast());
        let call = Invocation::new(&target, &operands, &result).opaque(b"abc");
        // SAFETY: every operand and the result is a single number, as the target expects.
        unsafe { call.run() }.unwrap();
        assert_eq!(y, 4.0, "{name}");
        let other = runtime.find_legacy(name, "Host", ApiVersion::Original);
        assert!(other.is_err(), "{name}");
    }
    for name in ["adapted", "adapted_quiet", "adapted_constant"] {
        let handler = library.handler(name, &[(Stage::Execute, name)]).unwrap();
        let attributes = Attributes::new().with("opaque", "abc");
        let x = Tensor::from_slice([], &[1_f32]).unwrap();
        let y = xla_ffi_runtime::Shape::new(xla_ffi_runtime::DType::F32, []).unwrap();
        let call = handler.instantiate(&attributes).unwrap().call();
        let outcome = call.args([x]).ret(y).run().unwrap();
        assert_eq!(outcome.rets[0].to_vec(), Some(vec![4_f32]), "{name}");
    }
    std::mem::forget(runtime);
}

#[test]
fn an_adapter_describes_its_opaque_bytes() {
    let test = "an_adapter_describes_its_opaque_bytes";
    let Some(library) = library(test, "adapters.c", SOURCE, &[]) else {
        return;
    };
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&library).unwrap();
    for (name, attribute, count, expected) in [
        ("in_local", false, 64, [512_i64, 512]),
        ("in_elsewhere", false, 128, [1024, 1024]),
        ("in_elsewhere_of_two", true, 128, [1024, 1024]),
        ("in_attribute", true, 4, [294, 3]),
    ] {
        let handler = library.handler(name, &[(Stage::Execute, name)]).unwrap();
        let attributes = match attribute {
            true => Attributes::new().with("a", "abc"),
            false => Attributes::new(),
        };
        let call = handler.instantiate(&attributes).unwrap().call();
        let x = Tensor::from_slice([count], &vec![0_f32; count as usize]).unwrap();
        let y = xla_ffi_runtime::Shape::new(xla_ffi_runtime::DType::S64, [2]).unwrap();
        let outcome = call.args([x]).ret(y).run().unwrap();
        assert_eq!(outcome.rets[0].to_vec(), Some(expected.to_vec()), "{name}");
    }
    std::mem::forget(runtime);
}
