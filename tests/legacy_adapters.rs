//! Adapters of the original custom calls that are filled in by hand, in C: what is left out or too much is told.

use std::path::{Path, PathBuf};
use xla_ffi_runtime::{Attributes, Revision, Runtime, Stage, Tensor};
use xla_ffi_testing::compiler::shared_library;

/// The function adds its opaque bytes up; the descriptor is of ones, 8 for each element of the operand.
const SOURCE: &str = r#"
#include "xla_ffi/legacy.h"
static XLA_FFI_Error* size(const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  memset(q->local, 1, sizeof(q->local));
  q->size = 8 * (size_t)o->args[0].count;
  return NULL;
}
static XLA_FFI_Error* local(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  return size(o, q);
}
static XLA_FFI_Error* named(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  q->data = q->local;
  return size(o, q);
}
static XLA_FFI_Error* behind(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  q->data = q->local + 8;
  return size(o, q);
}
static XLA_FFI_Error* nowhere(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  (void)call;
  q->data = NULL;
  return size(o, q);
}
static XLA_FFI_Error* elsewhere(xffi_call* call, const xffi_legacy_operands* o, xffi_legacy_opaque* q) {
  static char ones[1024];
  (void)call;
  memset(ones, 1, sizeof(ones));
  q->data = ones;
  return size(o, q);
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
ADAPT(in_named, named, "a");
ADAPT(in_behind, behind, NULL);
ADAPT(in_nowhere, nowhere, NULL);
ADAPT(in_elsewhere, elsewhere, NULL);
ADAPT(in_elsewhere_of_two, elsewhere, "a");
ADAPT(in_both, local, "a");
ADAPT(in_attribute, looks, "a");
static const xffi_legacy_adapter unsigned_adapter = {.function = (void (*)(void))sum};
XFFI_ADAPT(no_signature, unsigned_adapter);
static const xffi_legacy_adapter odd_adapter = {.signature = 6, .function = (void (*)(void))sum};
XFFI_ADAPT(odd_signature, odd_adapter);
static const xffi_legacy_adapter empty_adapter = {.signature = XFFI_LEGACY_CPU};
XFFI_ADAPT(no_function, empty_adapter);
"#;

/// Targets of the unified form whose inputs are no constants: their type alone does not tell them from one for GPUs.
const UNIFIED: &str = r#"
#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/legacy.h"
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

/// A library of one source.
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
fn a_unified_target_for_cpus_may_take_pointers_to_no_constants() {
    use xla_ffi_runtime::Tree;
    use xla_ffi_runtime::legacy::{ApiVersion, Invocation};
    let test = "a_unified_target_for_cpus_may_take_pointers_to_no_constants";
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
        // SAFETY: a number each.
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
fn what_an_adapter_lacks_is_told() {
    let test = "what_an_adapter_lacks_is_told";
    let Some(library) = library(test, "adapters.c", SOURCE, &[]) else {
        return;
    };
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&library).unwrap();
    let bytes = "`describe` gives";
    let sum = |size: i64| Ok([size, size]);
    for (name, count, expected) in [
        ("in_local", 64, sum(512)),
        ("in_local", 65, Err(bytes)),
        ("in_named", 64, sum(512)),
        ("in_named", 65, Err(bytes)),
        ("in_behind", 63, sum(504)),
        ("in_behind", 64, Err(bytes)),
        ("in_nowhere", 0, Ok([0, 0])),
        ("in_nowhere", 1, Err(bytes)),
        ("in_elsewhere", 128, sum(1024)),
        ("in_elsewhere_of_two", 128, sum(1024)),
        ("in_both", 4, Err("opaque->data = opaque->local")),
        ("in_attribute", 4, Ok([294, 3])),
        ("no_signature", 4, Err("write .signature = XFFI_LEGACY_CPU")),
        (
            "odd_signature",
            4,
            Err("write .signature = XFFI_LEGACY_CPU"),
        ),
        ("no_function", 4, Err("write .function = ")),
    ] {
        let handler = library.handler(name, &[(Stage::Execute, name)]).unwrap();
        let has = ["in_named", "in_elsewhere_of_two", "in_both", "in_attribute"].contains(&name);
        let attributes = match has {
            true => Attributes::new().with("a", "abc"),
            false => Attributes::new(),
        };
        let call = handler.instantiate(&attributes).unwrap().call();
        let x = Tensor::from_slice([count], &vec![0_f32; count as usize]).unwrap();
        let y = xla_ffi_runtime::Shape::new(xla_ffi_runtime::DType::S64, [2]).unwrap();
        match (call.args([x]).ret(y).run(), expected) {
            (Ok(outcome), Ok(expected)) => {
                assert_eq!(outcome.rets[0].to_vec(), Some(expected.to_vec()), "{name}");
            }
            (Err(error), Err(told)) => assert!(error.message().contains(told), "{name}: {error}"),
            (Ok(_), Err(told)) => panic!("{name}: not told {told}"),
            (Err(error), Ok(_)) => panic!("{name}: {error}"),
        }
    }
    std::mem::forget(runtime);
}
