//! What hosts refuse, and with which code: as jaxlib 0.12.0 was measured to answer, question by
//! question.

mod support;

use support::{build, source};
use xla_ffi_runtime::spec::parse_result;
use xla_ffi_runtime::{Attributes, Hazard, Revision, Runtime, Stage, Stages};

/// The questions of `cxx/rules.c` in its order, and jaxlib 0.12.0's answers on CPU.
const MEASURED: &[(&str, i64)] = &[
    ("register a type", 0),
    ("get state before it is set", 5),
    ("set state of type 0", 13),
    ("set state of an unknown type", 13),
    ("set state with 47 bytes", 3),
    ("set state", 0),
    ("set state twice", 9),
    ("get state", 0),
    ("get the state of the execute stage", 0),
    ("register a second type", 0),
    ("get state of another type", 3),
    ("register a name again", 13),
    ("register a name again with its number", 0),
    ("register a name again with another number", 13),
    ("register another name with that number", 0),
    ("run id in instantiate", 0),
    ("device ordinal in instantiate", 0),
    ("the ordinal", -1),
    ("threads in instantiate", 12),
    ("empty lists are null", 1),
    ("stream", 12),
    ("stream with 31 bytes", 3),
    ("allocate", 3),
    ("allocate with alignment 3", 3),
    ("free", 12),
    ("register a third type", 0),
    ("user data that there is not", 5),
    ("user data of type 0", 5),
    ("set instantiate's state in execute", 9),
    ("find an extension", 0),
    ("there is none", 1),
    ("custom options", 0),
    ("how many", 0),
    ("run id with 31 bytes", 3),
    ("schedule", 0),
    ("make a future", 0),
    ("fail a future with null", 3),
    ("make an error that says OK", 1),
    ("fail a future with it", 3),
    ("an error with the code 99", 2),
    ("complete the future", 0),
    ("register without execute", 3),
    ("register a handler", 0),
    ("register it again", 0),
    ("register it with other traits", 3),
    ("register another handler under its name", 3),
    ("register one that does not answer", 3),
];

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

/// What jaxlib 0.12.0 was measured to crash on is told here.
#[test]
fn absent_state_is_a_hazard() {
    use support::handlers::{Function, metadata, slot};
    use xla_ffi_sys::{
        XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_State_Get_Args,
        XLA_FFI_TypeId,
    };

    unsafe extern "C" fn gets_prepared(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        // SAFETY: the frame is a host's.
        if unsafe { metadata(frame, 1, 0) } {
            return std::ptr::null_mut();
        }
        // SAFETY: slot 8 gives state.
        let get: Function<XLA_FFI_State_Get_Args> = unsafe { slot(frame, 8) };
        let mut id = XLA_FFI_TypeId { type_id: 1 };
        let mut args = XLA_FFI_State_Get_Args {
            struct_size: 48,
            extension_start: std::ptr::null_mut(),
            // SAFETY: the frame is a host's.
            ctx: unsafe { (*frame).ctx },
            stage: XLA_FFI_ExecutionStage::PREPARE,
            type_id: &raw mut id,
            state: std::ptr::null_mut(),
        };
        // SAFETY: the arguments are whole.
        unsafe { get(&raw mut args) }
    }

    let runtime = Runtime::default();
    // SAFETY: the function is a handler.
    let bundle = unsafe { xla_ffi_runtime::Bundle::execute(gets_prepared) };
    let handler = runtime.handler("gets_prepared", bundle).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let run = |stages| executable.call().stages(stages).run().unwrap_err();
    assert!(run(Stages::Cpu).has(Hazard::AbsentState));
    assert!(run(Stages::All).message().contains("no state"));
}
