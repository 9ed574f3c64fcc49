//! Tests mirrors with mistakes. Every mistake must be found and named, and all forms of a mirror must have the same
//! result.
//!
//! `XLA_FFI_CASES` sets the number of random cases.

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

/// Collects the JSON paths of all numbers in a layout.
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
                    // A path is of the form `/structs/NAME/fields/FIELD/offset`.
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
                // Sizes and offsets must not be negative, so a negative number does not parse.
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
    // If two items of the ABI have the same name in the mirror, only one of the items would be checked. This is allowed
    // only if their layouts are equal.
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

/// Builds a C++ mirror of `XLA_FFI_Buffer`, and returns the mistakes that its debug information shows; `None` if the
/// compiler is missing.
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

/// Returns a C++ mirror of `XLA_FFI_Buffer`. The field `rank` has the type `rank`, and `more` contains additional
/// fields.
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
        // A name with a namespace must select only the type in this namespace.
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

/// Runs a command line in `folder`. If the program is missing, reports a skip and returns false.
fn run(test: &str, folder: &Path, line: &str) -> bool {
    let mut words = line.split(' ');
    let program = words.next().unwrap();
    if !works(program) {
        skip(test, &format!("no {program}"));
        return false;
    }
    let status = Command::new(program)
        .args(words)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success(), "{line}");
    true
}

/// Returns a compilation unit with a mirror of `XLA_FFI_Buffer` and a function that uses the mirror.
fn unit(function: &str, rank: &str) -> String {
    let buffer = buffer(rank, "").replace("Buffer one;", "");
    format!(
        "#include <stddef.h>\n#include <stdint.h>\n{buffer}\n\
         struct Both {{ long a, b; short c; const char* d; }} both_{function};\n\
         extern \"C\" long {function}(Buffer* b) {{ return b->rank; }}\n"
    )
}

/// Compares a mirror in a library's debug information with `XLA_FFI_Buffer` of revision r10. `buffer` is the name of
/// the mirror's struct.
fn compared(library: &Path, buffer: &str) -> Result<Comparison, String> {
    let abi = Edition::find("r10").unwrap().declared();
    let names = format!(r#"{{ "only": true, "names": {{ "XLA_FFI_Buffer": "{buffer}" }} }}"#);
    let names = Names::parse(&names).unwrap();
    let bytes = std::fs::read(library).unwrap();
    let layouts = dwarf::read_mirror(&bytes, &Layout::of(&abi, &names));
    let layouts = layouts.map_err(|why| why.to_string())?;
    assert_eq!(layouts.len(), 1, "{layouts:#?}");
    Ok(layouts[0].compare(&abi, &names))
}

#[test]
fn types_in_other_units_are_followed() {
    let test = "types_in_other_units_are_followed";
    for (rank, mistakes) in [("int64_t", 0), ("int32_t", 1)] {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let file = folder.path().join(format!("{name}.cc"));
            std::fs::write(file, unit(name, rank)).unwrap();
        }
        let run = |line: &str| run(test, folder.path(), line);
        let linked = run("clang++ -g -O1 -fPIC -emit-llvm -c a.cc b.cc")
            && run("llvm-link a.bc b.bc -o ab.bc")
            && run("clang++ -shared -fPIC ab.bc -o linked.so");
        let packed = run("g++ -g -shared -fPIC a.cc b.cc -o packed.so") && run("dwz packed.so");
        for (library, _) in [("linked.so", linked), ("packed.so", packed)]
            .iter()
            .filter(|one| one.1)
        {
            let told = compared(&folder.path().join(library), "Buffer").unwrap();
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
    // `dwz` moves debug information that both libraries contain to a shared file. If the structs have different names,
    // only the types of their fields move.
    for shared in [true, false] {
        for name in ["a", "b"] {
            let text = unit(name, "int64_t");
            let own = text.replace("Buffer", &format!("Buffer_{name}"));
            let text = if shared { text } else { own };
            std::fs::write(folder.path().join(format!("{name}.cc")), text).unwrap();
            if !run(
                test,
                folder.path(),
                &format!("g++ -g -shared -fPIC {name}.cc -o {name}.so"),
            ) {
                return;
            }
        }
        if !run(test, folder.path(), "dwz -m common.debug a.so b.so") {
            return;
        }
        let buffer = if shared { "Buffer" } else { "Buffer_a" };
        match compared(&folder.path().join("a.so"), buffer) {
            Ok(told) => assert_eq!(told.mistakes, [""; 0], "{shared}"),
            Err(why) => assert!(why.contains("common.debug"), "{shared}: {why}"),
        }
    }
}

#[test]
fn libraries_without_types_are_told_what_they_are() {
    let test = "libraries_without_types_are_told_what_they_are";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = unit("a", "int64_t");
    std::fs::write(folder.join("a.cc"), text).unwrap();
    for compiler in ["g++ -g1", "clang++ -g1", "clang++ -gline-tables-only"] {
        if run(
            test,
            folder,
            &format!("{compiler} -shared -fPIC a.cc -o lines.so"),
        ) {
            let why = compared(&folder.join("lines.so"), "Buffer").unwrap_err();
            assert!(
                why.contains("build with -g") && !why.contains("--names"),
                "{why}"
            );
        }
    }
    if run(test, folder, "g++ -g -shared -fPIC a.cc -o whole.so")
        && run(
            test,
            folder,
            "objcopy --only-keep-debug whole.so mine.debug",
        )
        && run(
            test,
            folder,
            "objcopy -g --add-gnu-debuglink=mine.debug whole.so stripped.so",
        )
    {
        let why = compared(&folder.join("stripped.so"), "Buffer").unwrap_err();
        assert!(why.contains("mine.debug"), "{why}");
        assert_eq!(
            compared(&folder.join("mine.debug"), "Buffer")
                .unwrap()
                .judged,
            1
        );
    }
}

#[test]
fn a_value_named_without_its_enumeration_is_judged() {
    let abi = Edition::find("r10").unwrap().declared();
    for map in [
        r#"{ "only": true, "names": { "XLA_FFI_DataType_F32": "F32" } }"#,
        r#"{ "names": { "XLA_FFI_DataType_F32": "F32", "XLA_FFI_DataType": null } }"#,
    ] {
        let names = Names::parse(map).unwrap();
        let constants = Layout::of(&abi, &names).constants;
        assert_eq!(constants.get("F32"), Some(&11));
        assert!(
            !constants.contains_key("XLA_FFI_DataType_F64"),
            "{constants:?}"
        );
        for (value, mistakes) in [(11, 0), (12, 1)] {
            let layout = format!(r#"{{ "constants": {{ "F32": {value} }} }}"#);
            let told = Layout::parse(&layout).unwrap().compare(&abi, &names);
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
