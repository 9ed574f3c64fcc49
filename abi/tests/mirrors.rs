//! Mirrors that lie: every lie is found and named, and a mirror is judged the same in every form.
//!
//! `XLA_FFI_CASES` sets the number of cases.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::dwarf;
use xla_ffi_abi::mirror::{Comparison, Layout, Names};
use xla_ffi_testing::compiler::{cpp_compilers, library_of_text, works};
use xla_ffi_testing::damage::{cases, runner};
use xla_ffi_testing::skip;

/// Every number of a layout, by its place in the JSON.
fn numbers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                numbers(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Number(_) => found.push(at.to_owned()),
        _ => {}
    }
}

#[test]
fn every_lie_of_a_layout_is_found_and_named() {
    let abi = Edition::find("r10").unwrap().declared();
    let names = Names::default();
    let truth = serde_json::to_value(Layout::of(&abi, &names)).unwrap();
    let mut places = Vec::new();
    numbers(&truth, "", &mut places);
    assert!(places.len() > 500, "{}", places.len());
    let number = prop_oneof![0..100_i64, any::<i64>()];
    let lie = (any::<prop::sample::Index>(), number);
    runner(cases(2000, 100))
        .run(&lie, |(at, number)| {
            let place = &places[at.index(places.len())];
            let mut told = truth.clone();
            let there = told.pointer_mut(place).unwrap();
            prop_assume!(*there != json!(number));
            *there = json!(number);
            match Layout::parse(&told.to_string()) {
                Ok(layout) => {
                    let told = layout.compare(&abi, &names);
                    // `/structs/NAME/fields/FIELD/offset`
                    let parts: Vec<&str> = place.split('/').collect();
                    let name = match parts.as_slice() {
                        [_, "structs", owner, "fields", field, _] => format!("{owner}.{field} "),
                        [_, "enums", owner, "values", value] => format!("{owner}.{value} "),
                        [_, _, owner, ..] => format!("{owner} "),
                        _ => String::new(),
                    };
                    prop_assert!(
                        told.mistakes.len() == 1 && told.mistakes[0].starts_with(&name),
                        "{place} {number}: {:?}",
                        told.mistakes
                    );
                }
                // Bytes are not negative.
                Err(why) => prop_assert!(number < 0 && why.contains("does not parse"), "{why}"),
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_map_that_names_what_is_not_there_is_told() {
    let abi = Edition::find("r10").unwrap().declared();
    let known = [
        "XLA_FFI_Buffer",
        "XLA_FFI_Buffer.rank",
        "XLA_FFI_DataType_F32",
    ];
    let layout = Layout::of(&abi, &Names::default());
    runner(cases(300, 20))
        .run(&"(XLA_FFI_)?[A-Za-z_.]{1,20}", |name| {
            let map = json!({ "names": { name.clone(): "Mine", known[0]: "B", known[1]: null, known[2]: "F" } });
            let map = Names::parse(&map.to_string()).map_err(TestCaseError::fail)?;
            let is_there = layout.structs.contains_key(&name);
            let unknown = map.unknown(&abi);
            prop_assert!(unknown.len() == usize::from(!is_there), "{unknown:?}");
            Ok(())
        })
        .unwrap();
    // One name for two things: the second would not be judged, unless it looks the same.
    for (one, other, alike) in [
        ("XLA_FFI_Buffer", "XLA_FFI_Args", false),
        ("XLA_FFI_Buffer", "XLA_FFI_DataType", false),
        ("XLA_FFI_Buffer.rank", "XLA_FFI_Buffer.dtype", false),
        ("XLA_FFI_DataType_F32", "XLA_FFI_DataType_F64", false),
        ("XLA_FFI_DataType_F32", "XLA_FFI_Error_Code_OK", true),
        (
            "XLA_FFI_Stream_Get_Args.struct_size",
            "XLA_FFI_Buffer.struct_size",
            true,
        ),
    ] {
        let map = json!({ "names": { one: "mine", other: "mine" } });
        let told = Names::parse(&map.to_string()).unwrap().ambiguous(&abi);
        assert_eq!(told.is_empty(), alike, "{one} {other}: {told:?}");
    }
}

/// What a mirror's debug information is told as: one buffer, in the words of C++.
fn told(
    text: &str,
    compiler: &str,
    flags: &[&str],
    names: &str,
) -> Option<Result<Vec<String>, String>> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("#include <stddef.h>\n#include <stdint.h>\n{text}");
    let library = library_of_text(folder.path(), "mirror", compiler, &text, flags)?;
    let abi = Edition::find("r10").unwrap().declared();
    let names = format!(r#"{{ "only": true, "names": {{ "XLA_FFI_Buffer": "{names}" }} }}"#);
    let names = Names::parse(&names).unwrap();
    let expected = Layout::of(&abi, &names);
    let layouts = dwarf::read_mirror(&std::fs::read(library).unwrap(), &expected);
    let layouts = match layouts {
        Ok(layouts) => layouts,
        Err(why) => return Some(Err(why.to_string())),
    };
    let compared = layouts.iter().map(|layout| layout.compare(&abi, &names));
    let compared: Vec<_> = compared.collect();
    assert!(compared.iter().all(|told| told.judged == 1), "{compared:?}");
    Some(Ok(compared
        .into_iter()
        .flat_map(|told| told.mistakes)
        .collect()))
}

/// A buffer as a mirror has it, with `rank` of a type, and more.
fn buffer(rank: &str, more: &str) -> String {
    format!(
        "struct Buffer {{ size_t struct_size; void* extension_start; unsigned dtype; void* data; {rank} rank; \
         int64_t* dims; {more} }}; Buffer one;\n"
    )
}

#[test]
fn two_types_of_one_name_are_both_judged() {
    let (right, wrong) = (buffer("int64_t", ""), buffer("int32_t", ""));
    let text =
        |a: &str, b: &str| format!("namespace a {{ {a} }} namespace b {{ namespace c {{ {b} }} }}");
    let mistake = vec!["Buffer.rank has 4 bytes, expected 8".to_owned()];
    for compiler in cpp_compilers("two_types_of_one_name_are_both_judged") {
        let told = |text: &str, name: &str| told(text, compiler, &["-g"], name).unwrap().unwrap();
        assert_eq!(told(&text(&wrong, &right), "Buffer"), mistake);
        assert_eq!(told(&text(&right, &wrong), "Buffer"), mistake);
        assert_eq!(told(&text(&right, &right), "Buffer"), [""; 0]);
        // With its namespace it is one of them.
        for name in ["a::Buffer", "c::Buffer", "b::c::Buffer"] {
            let wanted = if name.starts_with('a') { 0 } else { 1 };
            assert_eq!(
                told(&text(&wrong, &right), name).len(),
                1 - wanted,
                "{name}"
            );
            assert_eq!(told(&text(&right, &wrong), name).len(), wanted, "{name}");
        }
    }
}

#[test]
fn every_age_of_debug_information_is_read_alike() {
    let more = "static constexpr int count = 3; static int here;";
    for compiler in cpp_compilers("every_age_of_debug_information_is_read_alike") {
        for age in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
            for (rank, mistakes) in [("int64_t", 0), ("int32_t", 1)] {
                let told = told(&buffer(rank, more), compiler, &[age], "Buffer").unwrap();
                let told = told.unwrap();
                assert_eq!(told.len(), mistakes, "{compiler} {age}: {told:?}");
            }
        }
    }
}

/// Runs a program in `folder`; `None`, told as a skip, if it is not there.
fn run(test: &str, folder: &Path, program: &str, arguments: &[&str]) -> Option<()> {
    if !works(program) {
        skip(test, &format!("no {program}"));
        return None;
    }
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success(), "{program} {arguments:?}");
    Some(())
}

/// A unit that uses a mirror of a buffer.
fn unit(function: &str, rank: &str) -> String {
    let (buffer, errors) = (buffer(rank, ""), "enum Errors { NONE = 0, CANCELLED = 1 };");
    format!("#include <stddef.h>\n#include <stdint.h>\n{buffer}{errors}\nextern \"C\" long {function}(Buffer* b, Errors e) {{ return b->rank + e; }}\n")
        .replace("Buffer one;", "")
}

/// How `library` compares: what is judged, the mistakes and what is absent.
fn compared(library: &Path, names: &str) -> Result<Comparison, String> {
    let abi = Edition::find("r10").unwrap().declared();
    let names = Names::parse(names).unwrap();
    let bytes = std::fs::read(library).unwrap();
    let layouts =
        dwarf::read_mirror(&bytes, &Layout::of(&abi, &names)).map_err(|why| why.to_string())?;
    assert_eq!(layouts.len(), 1, "{layouts:#?}");
    Ok(layouts[0].compare(&abi, &names))
}

const BUFFER: &str = r#"{ "only": true, "names": { "XLA_FFI_Buffer": "Buffer" } }"#;

#[test]
fn types_in_other_units_are_followed() {
    let test = "types_in_other_units_are_followed";
    for (rank, mistakes) in [("int64_t", 0), ("int32_t", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["a", "b"] {
            std::fs::write(folder.join(format!("{name}.cc")), unit(name, rank)).unwrap();
        }
        let bitcode = ["-g", "-O1", "-fPIC", "-emit-llvm", "-c", "a.cc", "b.cc"];
        let linked = run(test, folder, "clang++", &bitcode)
            .and_then(|()| run(test, folder, "llvm-link", &["a.bc", "b.bc", "-o", "ab.bc"]))
            .and_then(|()| {
                run(
                    test,
                    folder,
                    "clang++",
                    &["-shared", "-fPIC", "ab.bc", "-o", "ab.so"],
                )
            });
        let whole = ["-g", "-shared", "-fPIC", "a.cc", "b.cc", "-o", "dwz.so"];
        let packed =
            run(test, folder, "g++", &whole).and_then(|()| run(test, folder, "dwz", &["dwz.so"]));
        for library in [linked.map(|()| "ab.so"), packed.map(|()| "dwz.so")]
            .into_iter()
            .flatten()
        {
            let told = compared(&folder.join(library), BUFFER).unwrap();
            assert_eq!(
                (told.judged, told.mistakes.len()),
                (1, mistakes),
                "{library}: {told:?}"
            );
        }
    }
}

#[test]
fn types_in_another_file_are_not_judged() {
    let test = "types_in_another_file_are_not_judged";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["a", "b"] {
        // Types that both have move to the common file: numbers for one library, the whole struct for the other.
        let text = unit(name, "int64_t")
            + "struct Both { long a, b; short c; const char* d; } both; enum More { A, B } more;\n";
        let own = text.replace("Buffer", &format!("Buffer{name}"));
        for (kind, text) in [("whole", text), ("own", own)] {
            let (file, library) = (format!("{kind}_{name}.cc"), format!("{kind}_{name}.so"));
            std::fs::write(folder.join(&file), text).unwrap();
            let arguments = ["-g", "-shared", "-fPIC", &file, "-o", &library];
            if run(test, folder, "g++", &arguments).is_none() {
                return;
            }
        }
    }
    for kind in ["whole", "own"] {
        let [a, b] = ["a", "b"].map(|name| format!("{kind}_{name}.so"));
        if run(test, folder, "dwz", &["-m", "common.debug", &a, &b]).is_none() {
            return;
        }
        let names = BUFFER.replace(
            ": \"Buffer\"",
            if kind == "own" {
                ": \"Buffera\""
            } else {
                ": \"Buffer\""
            },
        );
        match compared(&folder.join(&a), &names) {
            Ok(told) => assert_eq!(told.mistakes, [""; 0], "{kind}"),
            Err(why) => assert!(why.contains("common.debug"), "{kind}: {why}"),
        }
    }
}

#[test]
fn libraries_without_types_are_told_what_they_are() {
    let test = "libraries_without_types_are_told_what_they_are";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = unit("a", "int64_t");
    for (compiler, flag) in [
        ("g++", "-g1"),
        ("clang++", "-g1"),
        ("clang++", "-gline-tables-only"),
    ] {
        let Some(library) = library_of_text(folder, "lines", compiler, &text, &[flag]) else {
            skip(test, &format!("no {compiler}"));
            continue;
        };
        let why = compared(&library, BUFFER).unwrap_err();
        assert!(
            why.contains("build with -g") && !why.contains("--names"),
            "{why}"
        );
    }
    let Some(library) = library_of_text(folder, "whole", "g++", &text, &["-g"]) else {
        return skip(test, "no g++");
    };
    assert_eq!(compared(&library, BUFFER).unwrap().judged, 1);
    let library = library.to_str().unwrap();
    let apart = ["--only-keep-debug", library, "mine.debug"];
    let linked = [
        "--strip-debug",
        "--add-gnu-debuglink=mine.debug",
        library,
        "stripped.so",
    ];
    let both =
        run(test, folder, "objcopy", &apart).and_then(|()| run(test, folder, "objcopy", &linked));
    if both.is_some() {
        let why = compared(&folder.join("stripped.so"), BUFFER).unwrap_err();
        assert!(why.contains("mine.debug"), "{why}");
        assert_eq!(
            compared(&folder.join("mine.debug"), BUFFER).unwrap().judged,
            1
        );
    }
}

#[test]
fn a_value_named_without_its_enumeration_is_judged() {
    let abi = Edition::find("r10").unwrap().declared();
    for (only, enumeration) in [(true, ""), (false, r#", "XLA_FFI_DataType": null"#)] {
        let map = format!(
            r#"{{ "only": {only}, "names": {{ "XLA_FFI_DataType_F32": "F32"{enumeration} }} }}"#
        );
        let names = Names::parse(&map).unwrap();
        let constants = Layout::of(&abi, &names).constants;
        assert_eq!(constants.get("F32"), Some(&11));
        assert!(
            !constants.contains_key("XLA_FFI_DataType_F64"),
            "{constants:?}"
        );
        for (value, mistakes) in [(11, 0), (12, 1)] {
            let layout =
                Layout::parse(&format!(r#"{{ "constants": {{ "F32": {value} }} }}"#)).unwrap();
            let told = layout.compare(&abi, &names);
            assert_eq!(
                (told.judged, told.mistakes.len()),
                (1, mistakes),
                "{told:?}"
            );
        }
        let told = Layout::default().compare(&abi, &names);
        assert!(told.absent.contains(&"F32".to_owned()), "{told:?}");
    }
}
