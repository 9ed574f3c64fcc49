//! Functions of the C headers that no example calls, on every revision of the embedded runtime.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xla_ffi_runtime::{
    Attributes, Call, Error, HostAllocator, Outcome, Revision, Runtime, Stage, Stages, Stream,
    Tensor, spec,
};
use xla_ffi_testing::{compiler, root};

fn library(test: &str) -> Option<PathBuf> {
    let flags = [
        "-I".to_owned(),
        root().join("include").display().to_string(),
        "-fvisibility=hidden".to_owned(),
    ];
    let folder = xla_ffi_testing::target_folder().join("tmp/c-functions");
    let source = root().join("tests/c/functions.c");
    compiler::shared_library(&folder, test, &source, "c_functions", &flags)
}

/// Calls a handler with operands as on the command line, and what `more` gives the call.
fn call(
    revision: Revision,
    library: &Path,
    (symbol, attributes): (&str, &str),
    (args, rets): (&[&str], &[&str]),
    more: impl FnOnce(Call) -> Call,
) -> Result<Outcome, Error> {
    let runtime = Runtime::new(revision);
    let library = runtime.open(library)?;
    let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
    // Some have types that JAX passes to no handler.
    let mut call = handler
        .instantiate_any(&Attributes::parse(attributes)?)?
        .call();
    for arg in args {
        call = call.arg(spec::Spec::parse(arg)?.tensor()?);
    }
    for ret in rets {
        call = call.ret(spec::parse_result(ret)?);
    }
    let outcome = more(call).run();
    // Libraries know a copy of XLA by the address of its table: keep it.
    std::mem::forget(runtime);
    outcome
}

fn ints(tensor: &Tensor) -> Vec<i32> {
    tensor.to_vec().expect("s32")
}

#[test]
fn operands_that_may_be_absent() {
    let Some(library) = library("operands_that_may_be_absent") else {
        return;
    };
    for revision in Revision::ALL {
        let call = |args: &[&str], rets: &[&str]| {
            call(revision, &library, ("optional", ""), (args, rets), |call| {
                call
            })
        };
        let alone = call(&["f32[2]=1,2"], &["f32[2]"]).expect("it runs");
        assert_eq!(alone.rets[0].to_vec::<f32>().unwrap(), [1.0, 2.0]);
        let both = call(&["f32[2]=1,2", "f32[2]=10,20"], &["f32[2]", "s32"]).expect("it runs");
        assert_eq!(both.rets[0].to_vec::<f32>().unwrap(), [11.0, 22.0]);
        assert_eq!(ints(&both.rets[1]), [1]);
        let error = call(&["f32[2]=1,2", "f32[3]=1,2,3"], &["f32[2]"]).unwrap_err();
        assert!(error.message().contains("'x' and 'm'"), "{error}");
    }
}

/// Before r5 elements of less than a byte come without their type: who takes any is not given none.
#[test]
fn operands_of_any_type_have_one() {
    let Some(library) = library("operands_of_any_type_have_one") else {
        return;
    };
    let cases: [(&[&str], &str, [i32; 3], &str); 6] = [
        (&["s4[3]=1,-2,3"], "f32[2]", [2, 8, -1], "argument 'x' (0)"),
        (&["u4[1]=9"], "f32[]", [1, 4, -1], "argument 'x' (0)"),
        (
            &["f4e2m1fn[2]=0,6"],
            "f32[]",
            [1, 4, -1],
            "argument 'x' (0)",
        ),
        (
            &["s8[]=1", "u2[5]=3,0,2,1,3"],
            "f32[]",
            [1, 4, 2],
            "argument 'm' (1)",
        ),
        (&["s8[]=1"], "s2[4]", [1, 1, -1], "result 'z' (1)"),
        (&["token"], "s16[2]", [0, 4, -1], ""),
    ];
    // Older ones have no such arrays.
    for revision in Revision::ALL.into_iter().filter(|is| *is >= Revision::R3) {
        for (args, ret, bytes, name) in cases {
            let rets = ["s32[3]", ret];
            let outcome = call(
                revision,
                &library,
                ("any_bytes", ""),
                (args, &rets),
                |call| call,
            );
            if revision >= Revision::R5 || name.is_empty() {
                assert_eq!(
                    ints(&outcome.expect("it runs").rets[0]),
                    bytes,
                    "{revision}"
                );
                continue;
            }
            let error = outcome.expect_err("nobody knows the type");
            let told = format!(
                "{name}: an array of elements of less than a byte arrives without its type in this XLA and packed \
                 the other way round; the first jaxlib that has it is 0.6.0"
            );
            assert!(error.message().contains(&told), "{revision}: {error}");
            assert_eq!(error.code().name(), "UNIMPLEMENTED", "{revision}");
        }
    }
}

#[test]
fn operands_that_are_changed_in_place() {
    let Some(library) = library("operands_that_are_changed_in_place") else {
        return;
    };
    for revision in Revision::ALL {
        let called = |args: &[&str], ret: &str, alias: bool| {
            let rets: &[&str] = if alias { &[] } else { &[ret, "f32[1]"] };
            call(revision, &library, ("in_place", ""), (args, rets), |call| {
                if alias {
                    let sum = spec::parse_result("f32[1]").expect("a result");
                    call.ret_alias(1).ret(sum)
                } else {
                    call
                }
            })
        };
        let args = ["f32[2]=1,2", "f32[2]=10,20"];
        let outcome = called(&args, "", true).expect("it runs");
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), [11.0, 22.0]);
        assert_eq!(outcome.rets[1].to_vec::<f32>().unwrap(), [33.0]);
        for (args, ret, alias, text) in [
            (
                args,
                "f32[2]",
                false,
                "in-out operand 'y' (1): argument and result lie in different memory; declare the \
                 aliasing: input_output_aliases={1: 0}",
            ),
            (
                args,
                "f32[3]",
                false,
                "in-out operand 'y' (1): the argument is F32[2], the result F32[3]; both have to be \
                 the same array",
            ),
            (
                ["f32[2]=1,2", "s32[2]=1,2"],
                "f32[2]",
                false,
                "argument 'y' (1): expected dtype F32, got S32",
            ),
        ] {
            let error = called(&args, ret, alias).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
    }
}

/// A result starts where another operand does: few operands are compared in pairs, many are sorted.
#[test]
fn results_that_start_where_another_operand_does() {
    let Some(library) = library("results_that_start_where_another_operand_does") else {
        return;
    };
    for count in [2, 8, 9, 100] {
        let attributes = format!("{{count = {count}}}");
        let outcome = call(
            Revision::NEWEST,
            &library,
            ("clashes", &attributes),
            (&[], &["s32[6]"]),
            |call| call,
        );
        // Apart; an alias; an alias of another shape; two results; two results and an argument; without elements.
        let found = ints(&outcome.expect("it runs").rets[0]);
        assert_eq!(found, [0, 0, 1, 1, 1, 0], "{count} arguments and results");
    }
}

#[test]
fn texts_and_shapes() {
    let Some(library) = library("texts_and_shapes") else {
        return;
    };
    for revision in Revision::ALL {
        let call = |symbol: &str, attributes: &str, args: &[&str], ret: &str| {
            call(
                revision,
                &library,
                (symbol, attributes),
                (args, &[ret]),
                |call| call,
            )
        };
        let absent = call("words", "", &[], "s32[2]").expect("it runs");
        assert_eq!(ints(&absent.rets[0]), [4, i32::from(b'n')]);
        let given = call("words", "text = \"ox\"", &[], "s32[2]").expect("it runs");
        assert_eq!(ints(&given.rets[0]), [2, i32::from(b'o')]);
        let args = ["f32[1,2]=3,4", "f32[2,1]=5,6"];
        let product = call("product", "", &args, "f32[1,1]").expect("it runs");
        assert_eq!(product.rets[0].to_vec::<f32>().unwrap(), [39.0]);
        let args = ["f32[1,2]=3,4", "f32[3,1]=5,6,7"];
        let error = call("product", "", &args, "f32[1,1]").unwrap_err();
        assert!(
            error.message().contains("k = 2 from argument 'x' (0)"),
            "{error}"
        );
    }
}

/// What is wrong with a call is an error, whether its handler takes notice or not.
#[test]
fn wrong_calls_are_errors_of_handlers_that_do_not_ask() {
    let Some(library) = library("wrong_calls_are_errors_of_handlers_that_do_not_ask") else {
        return;
    };
    for revision in Revision::ALL {
        for (symbol, attributes, args, parts) in [
            ("never_asked", "{by = 7 : i32}", &[][..], &[][..]),
            ("not_returned", "{by = 7 : i32}", &[], &[]),
            ("asked_too_early", "{by = 7 : i32}", &[], &[]),
            ("never_asked", "{by = 7 : i64}", &[], &["'by'", "S64"]),
            ("not_returned", "{by = 7 : i64}", &[], &["'by'", "S64"]),
            ("asked_too_early", "{by = 7 : i64}", &[], &["'by'", "S64"]),
            ("never_asked", "{by = 7 : i32, z = true}", &[], &["'z'"]),
            ("not_returned", "{by = 7 : i32, z = true}", &[], &["'z'"]),
            // One that it did not fetch.
            (
                "never_asked",
                "{by = 7 : i32}",
                &["f32[]=1"],
                &["arguments", "1"],
            ),
            // What was asked for and is absent was asked for, too: a name that is misspelt is no default.
            ("asked_for_absent", "", &[], &[]),
            ("asked_for_absent", "{scale = 7 : i32}", &[], &[]),
            ("asked_for_absent", "{scael = 7 : i32}", &[], &["'scael'"]),
            ("by_hand", "{by = 7 : i64}", &["f32[]=1"], &[]),
        ] {
            let rets: &[&str] = if symbol == "asked_for_absent" {
                &[]
            } else {
                &["s32[1]"]
            };
            let outcome = call(
                revision,
                &library,
                (symbol, attributes),
                (args, rets),
                |call| call,
            );
            let told = outcome.err().map(|error| error.message().to_owned());
            assert_eq!(
                told.is_none(),
                parts.is_empty(),
                "{revision} {symbol} {attributes}"
            );
            for part in parts {
                let told = told.as_deref().unwrap_or_default();
                assert!(told.contains(part), "{symbol} {attributes}: {told}");
            }
        }
    }
}

/// What macros define has names that no function of a user's has.
#[test]
fn functions_have_any_name() {
    let Some(library) = library("functions_have_any_name") else {
        return;
    };
    for (symbol, told) in [("named_handler", "handler"), ("named_frame", "frame")] {
        let none = (&[][..], &[][..]);
        let newest = Revision::NEWEST;
        let error = call(newest, &library, (symbol, ""), none, |call| call).unwrap_err();
        assert_eq!(error.message(), told);
    }
}

#[test]
fn user_data_has_a_type_that_the_program_knows() {
    let Some(library) = library("user_data_has_a_type_that_the_program_knows") else {
        return;
    };
    for revision in Revision::ALL {
        let none = (&[][..], &[][..]);
        let error = call(revision, &library, ("find_private", ""), none, |call| call).unwrap_err();
        let told = "find_private: no program can attach user data of the type 'c_functions.left', which is its library's \
                    alone: make it an XFFI_SHARED_TYPE";
        assert_eq!(error.message(), told, "{revision}");
        assert_eq!(error.code().name(), "INTERNAL", "{revision}");
    }
}

#[test]
fn what_the_context_has() {
    let Some(library) = library("what_the_context_has") else {
        return;
    };
    for revision in Revision::ALL {
        let device = |call: Call| {
            // An address that is never followed.
            // SAFETY: nobody follows the address.
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

#[test]
fn scalars_arrays_and_entries_of_every_type() {
    let test = "scalars_arrays_and_entries_of_every_type";
    let Some(library) = library(test) else {
        return;
    };
    let types = [
        ("bool", "i1"),
        ("i8", "i8"),
        ("i16", "i16"),
        ("i32", "i32"),
        ("i64", "i64"),
        ("u8", "ui8"),
        ("u16", "ui16"),
        ("u32", "ui32"),
        ("u64", "ui64"),
        ("f32", "f32"),
        ("f64", "f64"),
        ("c64", "complex<f32>"),
        ("c128", "complex<f64>"),
    ];
    let (mut outer, mut inner) = (vec![], vec![]);
    for (name, mlir) in types {
        let (zero, one) = match name {
            "bool" => ("false", "true"),
            "f32" | "f64" => ("0.0", "1.0"),
            "c64" | "c128" => ("(0.0, 0.0)", "(1.0, 2.0)"),
            _ => ("0", "1"),
        };
        let typed = if name == "bool" {
            one.to_owned()
        } else {
            format!("{one} : {mlir}")
        };
        outer.push(format!("{name} = {typed}"));
        outer.push(format!(
            "{name}s = dense<[{zero}, {one}]> : tensor<2x{mlir}>"
        ));
        inner.push(format!("{name} = {typed}"));
    }
    let attributes = format!("{{{}, in = {{{}}}}}", outer.join(", "), inner.join(", "));
    let numbers = call(
        Revision::NEWEST,
        &library,
        ("scalars", &attributes),
        (&[], &["f64[13]"]),
        |call| call,
    );
    let mut wanted = vec![1111.0; 11];
    // 1 + 2, and the imaginary parts of the others.
    wanted.extend([2223.0; 2]);
    let numbers = numbers.expect("it runs");
    assert_eq!(numbers.rets[0].to_vec::<f64>(), Some(wanted));
}

/// A field that nobody asked for is refused as an attribute is, however often the dictionary is fetched or copied.
#[test]
fn fields_that_were_not_asked_for() {
    let Some(library) = library("fields_that_were_not_asked_for") else {
        return;
    };
    let unknown = "': not one that this handler knows";
    for (attributes, wanted) in [
        ("how = \"\", d = {lo = 1 : i64}", Ok(1)),
        ("how = \"\", d = {}", Ok(7)),
        ("how = \"\", d = {hi = 2 : i64, lo = 1 : i64}", Ok(201)),
        ("how = \"\", d = {inner = {x = 3 : i64}}", Ok(3007)),
        ("how = \"\", d = {low = 1 : i64}", Err("attribute 'd.low")),
        (
            "how = \"\", d = {hi = 2 : i64, flag = 1 : i64, high = 2 : i64}",
            Err("attribute 'd.high"),
        ),
        (
            "how = \"\", d = {inner = {y = 3 : i64}}",
            Err("attribute 'inner.y"),
        ),
        (
            "how = \"done\", d = {low = 1 : i64}",
            Err("attribute 'd.low"),
        ),
        ("how = \"done\", d = {hi = 1 : i64}", Ok(107)),
        ("how = \"open\", d = {low = 1 : i64}", Ok(7)),
        ("how = \"raw\", d = {a = 1 : i64, b = 2 : i64}", Ok(2)),
    ] {
        let text = format!("{{{attributes}}}");
        let operands: (&[&str], &[&str]) = (&[], &["s64[]"]);
        let outcome = call(
            Revision::NEWEST,
            &library,
            ("fields", &text),
            operands,
            |call| call,
        );
        match (outcome, wanted) {
            (Ok(outcome), Ok(wanted)) => {
                assert_eq!(
                    outcome.rets[0].to_vec(),
                    Some(vec![wanted as i64]),
                    "{text}"
                );
            }
            (Err(error), Err(wanted)) => {
                let told = error.message();
                assert_eq!(told.matches(unknown).count(), 1, "{text}: {told}");
                assert!(
                    told.contains(&format!("{wanted}{unknown}")),
                    "{text}: {told}"
                );
            }
            (outcome, _) => panic!("{text}: {outcome:?}"),
        }
    }
}

/// What older XLAs lack, and the first jaxlib that has it.
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

/// Each thing works from its revision on, and before it the error names the first jaxlib.
#[test]
fn the_context_has_each_thing_since_then() {
    let Some(path) = library("the_context_has_each_thing_since_then") else {
        return;
    };
    for (name, since) in SINCE {
        // What leaves state.
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
                // SAFETY: nobody follows the address.
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
                    // r0 and r1 take no codes.
                    let code = error.code().name();
                    assert!(
                        !told || code == "UNIMPLEMENTED" || revision < Revision::R2,
                        "{name} on {revision}: {error}"
                    );
                }
            }
            // Libraries know a copy of XLA by the address of its table: keep it.
            std::mem::forget(runtime);
        }
    }
}

#[test]
fn state_that_cannot_be_left_is_destroyed() {
    let Some(library) = library("state_that_cannot_be_left_is_destroyed") else {
        return;
    };
    for revision in Revision::ALL {
        let lost = call(revision, &library, ("lost", ""), (&[], &["s32"]), |call| {
            call
        });
        assert_eq!(ints(&lost.expect("it runs").rets[0]), [1], "{revision}");
    }
}

/// jaxlib 0.4.33 to 0.8.0 call a deleter that is a null pointer, those from 0.8.1 on refuse the type.
#[test]
fn state_without_a_deleter_is_left_everywhere() {
    let Some(library) = library("state_without_a_deleter_is_left_everywhere") else {
        return;
    };
    for revision in Revision::ALL {
        if revision == Revision::R0 {
            continue; // no state
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
        // Libraries know a copy of XLA by the address of its table: keep it.
        std::mem::forget(runtime);
    }
}

/// An XLA whose version is older than a handler's floor does not take it; those of r0 do not ask.
#[test]
fn a_host_is_asked_for_a_stream_once() {
    let Some(library) = library("a_host_is_asked_for_a_stream_once") else {
        return;
    };
    let operands: (&[&str], &[&str]) = (&[], &["s32[1]"]);
    let asked = call(Revision::R10, &library, ("hosts", ""), operands, |call| {
        call
    });
    assert_eq!(ints(&asked.expect("it runs").rets[0]), [8]);
}

#[test]
fn floors_and_host_memory() {
    let Some(library) = library("floors_and_host_memory") else {
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
        // SAFETY: nobody follows the address.
        let stream = |call: Call| call.stream(unsafe { Stream::borrowed(0x5000 as *mut c_void) });
        call("on_host", "{more = 1 : i32}", |call| call).expect("nothing of a device");
        call("anywhere", "{more = 1 : i32}", stream).expect("any stream");
        let error = call("on_host", "", stream).expect_err("a stream");
        let text = error.message();
        assert!(
            text.contains("the call comes with a device stream"),
            "{error}"
        );
        let code = error.code().name();
        assert!(
            code == "FAILED_PRECONDITION" || revision < Revision::R2,
            "{error}"
        );
    }
}

/// The handler checks the bounds that its description has.
#[test]
fn attributes_have_bounds() {
    let Some(library) = library("attributes_have_bounds") else {
        return;
    };
    let file = std::fs::read(&library).expect("the library");
    for described in [
        r#"{"name": "bins", "type": "i64", "min": 1, "max": 64}"#,
        r#"{"name": "eps", "type": "f64", "optional": true, "default": 0.5, "min": 1e-6}"#,
    ] {
        let mut places = file.windows(described.len());
        assert!(
            places.any(|bytes| bytes == described.as_bytes()),
            "{described}"
        );
    }
    for revision in Revision::ALL {
        for (attributes, told) in [
            ("{bins = 1}", None),
            ("{bins = 64, eps = 1.0e9}", None),
            ("{bins = 0}", Some(["'bins'", " 1,", " 0"])),
            ("{bins = 65}", Some(["'bins'", " 64,", " 65"])),
            ("{bins = 1, width = 0.1 : f32}", None),
            (
                "{bins = 1, width = 0.25 : f32}",
                Some(["'width'", " 0.1", "0.25"]),
            ),
            ("{bins = 1, eps = 0.0}", Some(["'eps'", " 1e-06,", " 0"])),
            ("{eps = 0.0}", Some(["'bins'", "missing", ""])),
        ] {
            let outcome = call(
                revision,
                &library,
                ("bounded", attributes),
                (&[], &["s32"]),
                |call| call,
            );
            let Some(told) = told else {
                outcome.unwrap_or_else(|error| panic!("{revision} {attributes}: {error}"));
                continue;
            };
            let error = outcome.expect_err("a bound is exceeded");
            let code = error.code().name();
            assert!(
                code == "INVALID_ARGUMENT" || revision < Revision::R2,
                "{error}"
            );
            assert!(
                told.iter().all(|part| error.message().contains(part)),
                "{error}"
            );
        }
    }
}
