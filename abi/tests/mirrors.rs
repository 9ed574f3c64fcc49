//! Mirrors that lie: every lie is found and named, and a mirror is judged the same in every form.
//!
//! `XLA_FFI_CASES` sets the number of cases.

use proptest::prelude::*;
use serde_json::{Value, json};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::dwarf;
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_testing::compiler::{cpp_compilers, library_of_text};
use xla_ffi_testing::damage::{cases, runner};

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
