//! Tests which arguments of table functions the hosts reject, and with which error codes. The expected codes were
//! measured with jaxlib 0.12.0.

mod support;

use support::{MEASURED, build, source};
use xla_ffi_runtime::spec::parse_result;
use xla_ffi_runtime::{Attributes, Hazard, Revision, Runtime, Stage, Stages};

#[test]
fn answers_are_those_of_jaxlib() {
    let include = source("../../include");
    let flags = [format!("-I{}", include.display())];
    let test = "answers_are_those_of_jaxlib";
    let Some(path) = build(test, &source("cxx/rules.c"), "rules", &flags) else {
        return;
    };
    let runtime = Runtime::new(Revision::R10);
    let library = runtime.open(path).unwrap();
    let stages = [
        (Stage::Execute, "rules"),
        (Stage::Instantiate, "rules_instantiate"),
    ];
    let handler = library.handler("rules", &stages).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let call = executable
        .call()
        .stages(Stages::Cpu)
        .ret(parse_result("s64[64]").unwrap());
    let codes = call.run().unwrap().rets[0].to_vec::<i64>().unwrap();
    let mut wrong = vec![];
    for ((question, measured), code) in MEASURED.iter().zip(&codes) {
        if measured != code {
            wrong.push(format!(
                "{question}: {code}, jaxlib 0.12.0 answers {measured}"
            ));
        }
    }
    assert!(
        codes[MEASURED.len()..].iter().all(|code| *code == -1),
        "{codes:?}"
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Arguments that crash jaxlib 0.12.0 are reported as hazards by the embedded runtime.
#[test]
fn absent_state_is_a_hazard() {
    use support::{Function, metadata, slot};
    use xla_ffi_sys::{
        XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_State_Get_Args,
        XLA_FFI_TypeId,
    };

    unsafe extern "C" fn gets_prepared(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        // SAFETY: `frame` is a call frame of a host.
        if unsafe { metadata(frame, 1, 0) } {
            return std::ptr::null_mut();
        }
        // SAFETY: the function in slot 8 has this type.
        let get: Function<XLA_FFI_State_Get_Args> = unsafe { slot(frame, 8) };
        let mut id = XLA_FFI_TypeId { type_id: 1 };
        let mut args = XLA_FFI_State_Get_Args {
            struct_size: 48,
            extension_start: std::ptr::null_mut(),
            // SAFETY: `frame` is a call frame of a host.
            ctx: unsafe { (*frame).ctx },
            stage: XLA_FFI_ExecutionStage::PREPARE,
            type_id: &raw mut id,
            state: std::ptr::null_mut(),
        };
        // SAFETY: the arguments struct is complete.
        unsafe { get(&raw mut args) }
    }

    let runtime = Runtime::default();
    // SAFETY: the function is a handler.
    let bundle = unsafe { xla_ffi_runtime::Bundle::execute(gets_prepared) };
    let handler = runtime.handler("gets_prepared", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let run = |stages| executable.call().stages(stages).run().unwrap_err();
    assert!(run(Stages::Cpu).has(Hazard::AbsentState));
    let error = run(Stages::All);
    assert!(error.message().contains("State is not set"), "{error}");
}

/// Measured error of jaxlib 0.8.1 and 0.9.0.1 (r7): "does not have a registered type info with a deleter".
#[test]
fn state_of_a_type_without_a_deleter_is_refused() {
    use support::{Function, metadata, slot};
    use xla_ffi_sys::{
        XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_State_Set_Args_R7, XLA_FFI_TypeId,
    };

    const NUMBER: i64 = 77;

    unsafe extern "C" fn sets_state(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        // SAFETY: `frame` is a call frame of a host.
        if unsafe { metadata(frame, 2, 0) } {
            return std::ptr::null_mut();
        }
        // SAFETY: the function in slot 7 has this type.
        let set: Function<XLA_FFI_State_Set_Args_R7> = unsafe { slot(frame, 7) };
        let mut id = XLA_FFI_TypeId { type_id: NUMBER };
        let mut args = XLA_FFI_State_Set_Args_R7 {
            struct_size: 40,
            extension_start: std::ptr::null_mut(),
            // SAFETY: `frame` is a call frame of a host.
            ctx: unsafe { (*frame).ctx },
            type_id: &raw mut id,
            state: std::ptr::dangling_mut(),
        };
        // SAFETY: the arguments struct is complete.
        unsafe { set(&raw mut args) }
    }
    unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

    for revision in [Revision::R7, Revision::R9, Revision::R10] {
        for deleter in [None, Some(nothing as unsafe extern "C" fn(_))] {
            let runtime = Runtime::new(revision);
            let info = xla_ffi_runtime::TypeInfo::new(deleter);
            // SAFETY: the objects are never accessed.
            unsafe { runtime.register_type("nothing", NUMBER, info) }.unwrap();
            // SAFETY: the function is a handler.
            let bundle = unsafe { xla_ffi_runtime::Bundle::execute(sets_state) };
            // SAFETY: `sets_state` is also a handler for the instantiate stage.
            let bundle = unsafe { bundle.with(Stage::Instantiate, sets_state) };
            let handler = runtime.handler("sets_state", bundle).unwrap();
            let set = handler.instantiate(&Attributes::new());
            assert_eq!(set.is_ok(), deleter.is_some(), "{revision}");
            if let Err(error) = set {
                assert!(error.message().contains("has no deleter"), "{error}");
            }
        }
    }
}
