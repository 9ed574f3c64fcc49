//! Tests the C headers' functions that no example calls: operands, attributes and their errors, on every revision of the
//! embedded runtime.

use crate::{call, ints, library};
use xla_ffi_runtime::{Revision, spec};

#[test]
fn optional_operands() {
    let Some(library) = library("optional_operands", "functions.c") else {
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
        assert!(error.message().contains("`x` and `m`"), "{error}");
    }
}

/// Handlers that accept operands of any type know the type of each operand.
///
/// Before r5, hosts pass packed elements without their type, so such handlers reject them.
#[test]
fn operands_of_any_type_have_a_known_type() {
    let Some(library) = library("operands_of_any_type_have_a_known_type", "functions.c") else {
        return;
    };
    let cases: [(&[&str], &str, [i32; 3], &str); 6] = [
        (&["s4[3]=1,-2,3"], "f32[2]", [2, 8, -1], "argument `x`"),
        (&["u4[1]=9"], "f32[]", [1, 4, -1], "argument `x`"),
        (&["f4e2m1fn[2]=0,6"], "f32[]", [1, 4, -1], "argument `x`"),
        (
            &["s8[]=1", "u2[5]=3,0,2,1,3"],
            "f32[]",
            [1, 4, 2],
            "argument `m`",
        ),
        (&["s8[]=1"], "s2[4]", [1, 1, -1], "result `z`"),
        (&["token"], "s16[2]", [0, 4, -1], ""),
    ];
    // Older revisions do not have arrays of these types.
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
fn operands_changed_in_place() {
    let Some(library) = library("operands_changed_in_place", "functions.c") else {
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
                "in-out operand `y`: argument and result are in different memory; declare the \
                 aliasing: input_output_aliases={1: 0}",
            ),
            (
                args,
                "f32[3]",
                false,
                "in-out operand `y`: the argument is F32[2], the result F32[3]; both must be \
                 the same array",
            ),
            (
                ["f32[2]=1,2", "s32[2]=1,2"],
                "f32[2]",
                false,
                "argument `y`: expected F32[?], got S32[2]",
            ),
        ] {
            let error = called(&args, ret, alias).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
    }
}

/// Results that start at the address of another operand are detected. Few operands are compared in pairs; many operands
/// are sorted.
#[test]
fn results_at_the_address_of_another_operand() {
    let Some(library) = library("results_at_the_address_of_another_operand", "functions.c") else {
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
        // The frames contain, in order: disjoint buffers, an alias, an alias of a different shape, two equal results,
        // two results and an argument, empty buffers.
        let found = ints(&outcome.expect("it runs").rets[0]);
        assert_eq!(found, [0, 0, 1, 1, 1, 0], "{count} arguments and results");
    }
}

#[test]
fn texts_and_shapes() {
    let Some(library) = library("texts_and_shapes", "functions.c") else {
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
            error.message().contains("k = 2 from argument `x`"),
            "{error}"
        );
    }
}

/// An invalid call fails even if the handler ignores the error.
#[test]
fn invalid_calls_fail_if_the_handler_ignores_the_error() {
    let Some(library) = library(
        "invalid_calls_fail_if_the_handler_ignores_the_error",
        "functions.c",
    ) else {
        return;
    };
    for revision in Revision::ALL {
        for (symbol, attributes, args, parts) in [
            ("never_asked", "{by = 7 : i32}", &[][..], &[][..]),
            ("not_returned", "{by = 7 : i32}", &[], &[]),
            ("asked_too_early", "{by = 7 : i32}", &[], &[]),
            ("never_asked", "{by = 7 : i64}", &[], &["`by`", "S64"]),
            ("not_returned", "{by = 7 : i64}", &[], &["`by`", "S64"]),
            ("asked_too_early", "{by = 7 : i64}", &[], &["`by`", "S64"]),
            ("never_asked", "{by = 7 : i32, z = true}", &[], &["`z`"]),
            ("not_returned", "{by = 7 : i32, z = true}", &[], &["`z`"]),
            // This call has an argument that the handler does not fetch.
            (
                "never_asked",
                "{by = 7 : i32}",
                &["f32[]=1"],
                &["expected 0 arguments, got 1"],
            ),
            // The name of an absent attribute is known if the handler fetches the attribute. A misspelt name is still
            // an error.
            ("asked_for_absent", "", &[], &[]),
            ("asked_for_absent", "{scale = 7 : i32}", &[], &[]),
            ("asked_for_absent", "{scael = 7 : i32}", &[], &["`scael`"]),
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

/// Functions of users may have the same names as functions in the headers.
#[test]
fn functions_may_have_the_names_of_header_functions() {
    let Some(library) = library(
        "functions_may_have_the_names_of_header_functions",
        "functions.c",
    ) else {
        return;
    };
    for (symbol, told) in [
        ("named_handler", "named_handler (execute): handler"),
        ("named_frame", "named_frame (execute): frame"),
    ] {
        let none = (&[][..], &[][..]);
        let newest = Revision::NEWEST;
        let error = call(newest, &library, (symbol, ""), none, |call| call).unwrap_err();
        assert_eq!(error.message(), told);
    }
}

#[test]
fn scalars_arrays_and_entries_of_every_type() {
    let test = "scalars_arrays_and_entries_of_every_type";
    let Some(library) = library(test, "functions.c") else {
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
    // The last numbers depend on the real part 1 + 2 and on the imaginary parts of complex numbers.
    wanted.extend([2223.0; 2]);
    let numbers = numbers.expect("it runs");
    assert_eq!(numbers.rets[0].to_vec::<f64>(), Some(wanted));
}

/// A field that the handler never reads is rejected like an unknown attribute, even if the dictionary is fetched twice
/// or copied.
#[test]
fn fields_that_are_never_read_are_rejected() {
    let Some(library) = library("fields_that_are_never_read_are_rejected", "functions.c") else {
        return;
    };
    let unknown = "; remove it";
    for (attributes, wanted) in [
        ("how = \"\", d = {lo = 1 : i64}", Ok(1)),
        ("how = \"\", d = {}", Ok(7)),
        ("how = \"\", d = {hi = 2 : i64, lo = 1 : i64}", Ok(201)),
        ("how = \"\", d = {inner = {x = 3 : i64}}", Ok(3007)),
        (
            "how = \"\", d = {low = 1 : i64}",
            Err("attribute `d`: unknown entry `low`"),
        ),
        (
            "how = \"\", d = {hi = 2 : i64, flag = 1 : i64, high = 2 : i64}",
            Err("attribute `d`: unknown entry `high`"),
        ),
        (
            "how = \"\", d = {inner = {y = 3 : i64}}",
            Err("attribute `inner`: unknown entry `y`"),
        ),
        (
            "how = \"done\", d = {low = 1 : i64}",
            Err("attribute `d`: unknown entry `low`"),
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

/// The handler checks the bounds that its description declares.
#[test]
fn attributes_have_bounds() {
    let Some(library) = library("attributes_have_bounds", "functions.c") else {
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
            ("{bins = 0}", Some(["`bins`", " 1,", " 0"])),
            ("{bins = 65}", Some(["`bins`", " 64,", " 65"])),
            ("{bins = 1, width = 0.1 : f32}", None),
            (
                "{bins = 1, width = 0.25 : f32}",
                Some(["`width`", " 0.1", "0.25"]),
            ),
            ("{bins = 1, eps = 0.0}", Some(["`eps`", " 1e-06,", " 0"])),
            ("{eps = 0.0}", Some(["`bins`", "missing", ""])),
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
