//! Mirrors that lie, and what is damaged: every lie is found and named, whatever comes is no panic; and a mirror is
//! judged the same in every form.
//!
//! `XLA_FFI_CASES` sets the number of cases.

use proptest::prelude::*;
use serde_json::{Value, json};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::dwarf;
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_abi::snapshot;
use xla_ffi_testing::compiler::{cpp_compilers, library_of_text};
use xla_ffi_testing::damage::{apply, cases, damage, runner};
use xla_ffi_testing::{root, skip};

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
fn damaged_layouts_and_maps_are_survived() {
    let abi = Edition::find("r10").unwrap().declared();
    let names = Names::default();
    let layout = serde_json::to_vec(&Layout::of(&abi, &names)).unwrap();
    let map = std::fs::read(root().join("cli/tests/mirrors/names.json")).unwrap();
    runner(cases(300, 100))
        .run(&prop::collection::vec(damage(), 1..4), |damages| {
            let damaged = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                for damage in &damages {
                    apply(&mut bytes, damage);
                }
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let map = Names::parse(&damaged(&map));
            match Layout::parse(&damaged(&layout)) {
                Ok(layout) => {
                    let told = layout.compare(&abi, map.as_ref().unwrap_or(&names));
                    prop_assert!(told.mistakes.iter().all(|mistake| !mistake.is_empty()));
                }
                Err(why) => prop_assert!(!why.is_empty()),
            }
            if let Ok(map) = map {
                let _ = map.unknown(&abi);
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

#[test]
fn damaged_debug_information_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include \"mirror.h\"\nlong uses(Buffer* b, Args* a, Stage s) { return b->rank + a->size + s; }\n";
    let include = format!("-I{}", root().join("cli/tests/mirrors").display());
    let built = library_of_text(folder.path(), "mirror", "gcc", text, &["-g", &include]);
    let Some(library) = built else {
        return skip("damaged_debug_information_is_survived", "gcc is not there");
    };
    let whole = std::fs::read(&library).unwrap();
    let abi = Edition::find("r10").unwrap().declared();
    let map = std::fs::read_to_string(root().join("cli/tests/mirrors/names.json")).unwrap();
    let names = Names::parse(&map).unwrap();
    let expected = Layout::of(&abi, &names);
    let right = dwarf::read_mirror(&whole, &expected).unwrap();
    assert!(right[0].compare(&abi, &names).mistakes.is_empty());
    runner(cases(600, 100))
        .run(&prop::collection::vec(damage(), 1..5), |damages| {
            let mut bytes = whole.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            match dwarf::read_mirror(&bytes, &expected) {
                Ok(layouts) => {
                    for layout in layouts {
                        let _ = layout.compare(&abi, &names);
                    }
                }
                Err(why) => prop_assert!(!why.to_string().is_empty()),
            }
            Ok(())
        })
        .unwrap();
    for end in (0..whole.len()).step_by(97) {
        let _ = dwarf::read_mirror(&whole[..end], &expected);
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
    let mistake = vec!["Buffer.rank takes 4 bytes, expected 8".to_owned()];
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

#[test]
fn a_library_that_is_split_in_part_is_not_judged_by_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let test = "a_library_that_is_split_in_part_is_not_judged_by_the_rest";
    for compiler in cpp_compilers(test) {
        let object = |name: &str, rank: &str, flag: &str| {
            let source = folder.path().join(format!("{name}.cc"));
            let text = format!(
                "#include <stddef.h>\n#include <stdint.h>\n{}",
                buffer(rank, "")
            );
            std::fs::write(&source, text.replace("one;", &format!("{name};"))).unwrap();
            let mut command = std::process::Command::new(compiler);
            command
                .current_dir(folder.path())
                .args(["-g", flag, "-fPIC", "-c"]);
            assert!(command.arg(source).status().unwrap().success());
            format!("{name}.o")
        };
        let objects = [
            object("right", "int64_t", "-O0"),
            object("wrong", "int32_t", "-gsplit-dwarf"),
        ];
        let mut command = std::process::Command::new(compiler);
        command
            .current_dir(folder.path())
            .args(["-shared", "-o", "both.so"]);
        assert!(command.args(objects).status().unwrap().success());
        let abi = Edition::find("r10").unwrap().declared();
        let names = r#"{ "only": true, "names": { "XLA_FFI_Buffer": "Buffer" } }"#;
        let expected = Layout::of(&abi, &Names::parse(names).unwrap());
        // Names are not in their places before linking.
        if cfg!(target_os = "linux") {
            let object = std::fs::read(folder.path().join("right.o")).unwrap();
            let why = dwarf::read_mirror(&object, &expected)
                .unwrap_err()
                .to_string();
            assert!(why.contains("link it with -shared"), "{why}");
        }
        let library = std::fs::read(folder.path().join("both.so")).unwrap();
        let why = dwarf::read_mirror(&library, &expected)
            .unwrap_err()
            .to_string();
        assert!(why.contains("it is split"), "{why}");
    }
}

#[test]
fn a_name_that_stands_twice_is_refused() {
    let abi = Edition::find("r10").unwrap().declared();
    let layout = serde_json::to_value(Layout::of(&abi, &Names::default())).unwrap();
    let snapshot = std::fs::read_to_string(root().join("abi/snapshots/r10.json")).unwrap();
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
    let map = json!({ "names": { "XLA_FFI_Buffer": "Mine" } });
    let mut maps = 0;
    for (what, document) in [("layout", layout), ("snapshot", snapshot), ("map", map)] {
        let mut places = Vec::new();
        objects(&document, "", &mut places);
        for place in places {
            // The last of a map, once more.
            let inside = document.pointer(&place).unwrap().as_object().unwrap();
            let Some((key, value)) = inside.iter().next_back() else {
                continue;
            };
            let mut whole = document.clone();
            *whole.pointer_mut(&place).unwrap() = json!("here");
            let twice = serde_json::to_string(inside).unwrap();
            let twice = format!(
                "{},{}:{value}}}",
                twice.strip_suffix('}').unwrap(),
                json!(key)
            );
            let text = whole.to_string().replace("\"here\"", &twice);
            let read = match what {
                "layout" => Layout::parse(&text).map(drop),
                "snapshot" => snapshot::parse("x", &text)
                    .map(drop)
                    .map_err(|error| error.to_string()),
                _ => Names::parse(&text).map(drop),
            };
            let why = read.expect_err(&format!("{what}{place}: {key} twice"));
            assert!(
                why.contains("stands there twice") || why.contains("duplicate field"),
                "{why}"
            );
            maps += usize::from(why.contains("stands there twice"));
        }
    }
    assert!(maps > 20, "{maps}");
}

/// The places of all objects of a document, the outermost left out.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if !at.is_empty() {
                found.push(at.to_owned());
            }
            for (key, value) in map {
                objects(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(all) => {
            for (index, value) in all.iter().enumerate() {
                objects(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}
