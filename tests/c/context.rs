//! Tests the C headers' functions for the context, user data, state and versions on every revision of the embedded
//! runtime.

use crate::{call, ints, library};
use std::ffi::c_void;
use std::sync::Arc;
use xla_ffi_runtime::{
    Attributes, Call, HostAllocator, Revision, Runtime, Stage, Stages, Stream, spec,
};

#[test]
fn user_data_of_a_registered_type() {
    let Some(library) = library("user_data_of_a_registered_type", "functions.c") else {
        return;
    };
    for revision in Revision::ALL {
        let none = (&[][..], &[][..]);
        let error = call(revision, &library, ("find_private", ""), none, |call| call).unwrap_err();
        let told = "find_private (execute): no program can attach user data of the type 'c_functions.left', which is its library's \
                    alone: make it an XFFI_SHARED_TYPE";
        assert_eq!(error.message(), told, "{revision}");
        assert_eq!(error.code().name(), "INTERNAL", "{revision}");
    }
}

#[test]
fn values_of_the_context() {
    let Some(library) = library("values_of_the_context", "functions.c") else {
        return;
    };
    for revision in Revision::ALL {
        let device = |call: Call| {
            // SAFETY: the handlers never dereference the stream's address.
            let call = call.stream(unsafe { Stream::borrowed(0x5000 as *mut c_void) });
            call.allocator(Arc::new(HostAllocator::default()))
        };
        let outcome = call(
            revision,
            &library,
            ("device", ""),
            (&[], &["s64[2]"]),
            device,
        );
        let outcome = outcome.expect("it runs");
        assert_eq!(outcome.rets[0].to_vec::<i64>().unwrap(), [0x5000, 8]);
        let without = call(
            revision,
            &library,
            ("device", ""),
            (&[], &["s64[2]"]),
            |call| call,
        );
        assert!(without.is_err());

        let nobodys = call(
            revision,
            &library,
            ("nobodys", ""),
            (&[], &["s32"]),
            |call| call,
        );
        assert_eq!(ints(&nobodys.expect("it runs").rets[0]), [1]);

        let extension = call(
            revision,
            &library,
            ("extension", ""),
            (&[], &["s32"]),
            |call| call,
        );
        if revision >= Revision::R9 {
            assert_eq!(ints(&extension.expect("it runs").rets[0]), [0]);
        } else {
            let error = extension.unwrap_err();
            assert!(error.message().contains("0.11.1"), "{error}");
        }
    }
}

/// The first revision that supports each context function.
const SINCE: [(&str, Revision); 16] = [
    ("xffi_stream", Revision::R0),
    ("xffi_scratch", Revision::R0),
    ("xffi_user_data", Revision::R0),
    ("xffi_find_user_data", Revision::R0),
    ("xffi_for_each_range", Revision::R0),
    ("xffi_cancellation_of", Revision::R0),
    ("xffi_schedule", Revision::R1),
    ("xffi_get_state", Revision::R1),
    ("futures", Revision::R2),
    ("xffi_num_threads", Revision::R3),
    ("xffi_run_id", Revision::R4),
    ("xffi_device_ordinal", Revision::R5),
    ("prepare", Revision::R8),
    ("initialize", Revision::R8),
    ("xffi_extension", Revision::R9),
    ("xffi_custom_options", Revision::R10),
];

/// Each context function works from its first revision on. On older revisions, the error names the first jaxlib that
/// has the function.
#[test]
fn context_functions_work_from_their_first_revision() {
    let Some(path) = library(
        "context_functions_work_from_their_first_revision",
        "functions.c",
    ) else {
        return;
    };
    for (name, since) in SINCE {
        // The stage in which the handler sets state.
        let leaves = match name {
            "xffi_get_state" => Some(Stage::Instantiate),
            "prepare" => Some(Stage::Prepare),
            "initialize" => Some(Stage::Initialize),
            _ => None,
        };
        for revision in Revision::ALL {
            let runtime = Runtime::new(revision);
            let library = runtime.open(&path).expect("it loads");
            let mut stages = vec![(Stage::Execute, "has")];
            let leaver = leaves.map(|stage| (stage, format!("has_{}", stage.name())));
            stages.extend(leaver.iter().map(|(stage, name)| (*stage, name.as_str())));
            let outcome = || {
                let handler = library.handler("has", &stages)?;
                let attributes = Attributes::new().with("what", name);
                let call = handler.instantiate(&attributes)?.call();
                let call = call.stages(Stages::All).ret(spec::parse_result("s64")?);
                // SAFETY: the handlers never dereference the stream's address.
                let call = call.stream(unsafe { Stream::borrowed(0x5000 as *mut c_void) });
                call.allocator(Arc::new(HostAllocator::default())).run()
            };
            match outcome() {
                Ok(outcome) => {
                    let number = outcome.rets[0].to_vec::<i64>().expect("s64")[0];
                    let works = number != 0 || name == "xffi_run_id";
                    assert_eq!(works, revision >= since, "{name} on {revision}: {number}");
                }
                Err(error) => {
                    let first = format!("the first jaxlib that has it is {}", since.first_jaxlib());
                    let told = error.message().contains(&first);
                    assert_eq!(told, revision < since, "{name} on {revision}: {error}");
                    // Hosts of r0 and r1 do not report error codes.
                    let code = error.code().name();
                    assert!(
                        !told || code == "UNIMPLEMENTED" || revision < Revision::R2,
                        "{name} on {revision}: {error}"
                    );
                }
            }
            // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the
            // address is not reused.
            std::mem::forget(runtime);
        }
    }
}

#[test]
fn state_that_cannot_be_set_is_destroyed() {
    let Some(library) = library("state_that_cannot_be_set_is_destroyed", "functions.c") else {
        return;
    };
    for revision in Revision::ALL {
        let lost = call(revision, &library, ("lost", ""), (&[], &["s32"]), |call| {
            call
        });
        assert_eq!(ints(&lost.expect("it runs").rets[0]), [1], "{revision}");
    }
}

/// State without a deleter works on every revision, although XLA's handling of null deleters differs.
///
/// jaxlib 0.4.33 to 0.8.0 call a null deleter; versions from 0.8.1 on reject the type.
#[test]
fn state_without_a_deleter_works_on_every_revision() {
    let Some(library) = library(
        "state_without_a_deleter_works_on_every_revision",
        "functions.c",
    ) else {
        return;
    };
    for revision in Revision::ALL {
        if revision == Revision::R0 {
            continue; // r0 does not support state
        }
        let runtime = Runtime::new(revision);
        let opened = runtime.open(&library).unwrap();
        let stages = [
            (Stage::Execute, "kept"),
            (Stage::Instantiate, "kept_instantiate"),
        ];
        let handler = opened.handler("kept", &stages).unwrap();
        let executable = handler.instantiate(&Attributes::new());
        let executable = executable.unwrap_or_else(|error| panic!("{revision}: {error}"));
        let call = executable.call().ret(spec::parse_result("s32").unwrap());
        let done = call
            .run()
            .unwrap_or_else(|error| panic!("{revision}: {error}"));
        assert_eq!(ints(&done.rets[0]), [7], "{revision}");
        // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the
        // address is not reused.
        std::mem::forget(runtime);
    }
}

#[test]
fn the_stream_is_requested_once_per_host() {
    let Some(library) = library("the_stream_is_requested_once_per_host", "functions.c") else {
        return;
    };
    let operands: (&[&str], &[&str]) = (&[], &["s32[1]"]);
    let asked = call(Revision::R10, &library, ("hosts", ""), operands, |call| {
        call
    });
    assert_eq!(ints(&asked.expect("it runs").rets[0]), [8]);
}

/// An XLA that is older than a handler's minimum version rejects the handler, except for r0, which does not check the
/// version.
#[test]
fn floors_and_host_memory() {
    let Some(library) = library("floors_and_host_memory", "functions.c") else {
        return;
    };
    for revision in Revision::ALL {
        let call = |symbol: &str, attributes: &str, more: fn(Call) -> Call| {
            call(revision, &library, (symbol, attributes), (&[], &[]), more)
        };
        let outcome = call("since_r8", "", |call| call);
        let takes =
            revision == Revision::R0 || revision.minor_version() >= Revision::R8.minor_version();
        assert_eq!(outcome.is_ok(), takes, "{revision}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(error.message().contains("it answers version"), "{error}");
        }
        // SAFETY: the handlers never dereference the stream's address.
        let stream = |call: Call| call.stream(unsafe { Stream::borrowed(0x5000 as *mut c_void) });
        call("on_host", "{more = 1 : i32}", |call| call).expect("nothing of a device");
        call("anywhere", "{more = 1 : i32}", stream).expect("any stream");
        let error = call("on_host", "", stream).expect_err("a stream");
        let text = error.message();
        assert!(text.contains("the call has a device stream"), "{error}");
        let code = error.code().name();
        assert!(
            code == "FAILED_PRECONDITION" || revision < Revision::R2,
            "{error}"
        );
    }
}
