//! What a struct holds that has no layout of its own in the model: unions and structs without a name, types under names
//! that are not the header's; and how a function is called. Each reader alone sees it, and both see the same.

use std::path::Path;
use xla_ffi_abi::diff::{Class, changes};
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::Abi;
use xla_ffi_abi::reader::Reader;
use xla_ffi_testing::skip;

/// A header whose struct has `held` in a hole of four bytes and `last` behind its fields, by every reader that is there.
fn read(before: &str, held: &str, last: &str) -> Vec<Abi> {
    let text = format!(
        "#include <stdint.h>\n{before}\nstruct XLA_FFI_Buffer {{ int32_t kind; {held} int64_t rank; {last} }};\n"
    );
    let mut found = Vec::new();
    for reader in [Reader::Clang, Reader::Dwarf] {
        let source = Source::from_text(Path::new("held.h"), text.clone());
        match source.read(reader) {
            Ok(abi) => found.push(abi),
            Err(Error::Missing(why)) => skip("what a struct holds", &why),
            Err(error) => panic!("{error}"),
        }
    }
    if let [clang, dwarf] = found.as_slice() {
        assert_eq!(clang.structs, dwarf.structs, "{text}");
    }
    found
}

/// The changes of their own between two headers, the same by every reader.
fn told(old: [&str; 3], new: [&str; 3]) -> Option<Vec<(Class, String)>> {
    let read = |[before, held, last]: [&str; 3]| read(before, held, last);
    let all = read(old).into_iter().zip(read(new)).map(|(old, new)| {
        let changes = changes(&old, &new);
        let own = changes.iter().filter(|change| !change.follows);
        own.map(|change| (change.class, change.path()))
            .collect::<Vec<_>>()
    });
    all.reduce(|one, other| {
        assert_eq!(one, other);
        one
    })
}

#[test]
fn fields_of_what_has_no_name_are_the_holders() {
    for (held, names) in [
        ("union { int32_t a; float b; };", &["a", "b"][..]),
        ("struct { int16_t a; int16_t b; };", &["a", "b"]),
        (
            "union { struct { int16_t a; union { int16_t b; }; }; };",
            &["a", "b"],
        ),
        (
            "struct { int32_t a : 3; int32_t : 2; int32_t b : 7; };",
            &["a", "b"],
        ),
        // Bits without a name hold nothing.
        ("int32_t : 5;", &[]),
    ] {
        let Some(mut told) = told(["", "", ""], ["", held, ""]) else {
            return;
        };
        let expected = names.iter();
        let expected = expected.map(|name| (Class::Inserted, format!("XLA_FFI_Buffer.{name}")));
        told.sort();
        assert_eq!(told, expected.collect::<Vec<_>>(), "{held}");
    }
    // Behind another field they begin where that ends.
    for abi in read(
        "",
        "",
        "struct { int64_t a; union { int32_t b : 9; struct { int32_t c, d; }; }; };",
    ) {
        let fields = &abi.structs["XLA_FFI_Buffer"].fields;
        let places = fields
            .iter()
            .map(|field| (field.name.as_str(), field.offset));
        let places: Vec<_> = places.collect();
        let expected = [
            ("kind", 0),
            ("rank", 8),
            ("a", 16),
            ("b", 24),
            ("c", 24),
            ("d", 28),
        ];
        assert_eq!(places, expected);
    }
}

#[test]
fn what_is_in_a_type_of_another_name_is_compared() {
    let pair = |inside: &str| format!("struct Pair {{ {inside} }};");
    let retyped = [(Class::Retyped, "XLA_FFI_Buffer.held".to_owned())];
    for (old, new) in [
        ("int32_t a; int32_t b;", "int32_t b; int32_t a;"),
        ("int32_t a; int32_t b;", "int32_t a; float b;"),
        ("int32_t a : 3; int32_t b;", "int32_t a : 4; int32_t b;"),
        ("int64_t* a;", "int32_t* a;"),
        ("enum { A = 1, B = 2 } a;", "enum { A = 1, B = 3 } a;"),
        (
            "union { int32_t a; float b; } c;",
            "union { int32_t a; int32_t b; } c;",
        ),
    ] {
        let (was, is) = (pair(old), pair(new));
        for held in ["struct Pair held;", "struct Pair held[2];"] {
            match told([&was, "", held], [&is, "", held]) {
                Some(told) => assert_eq!(told, retyped, "{old} {new} {held}"),
                None => return,
            }
            assert_eq!(told([&was, "", held], [&was, "", held]).unwrap(), []);
        }
        // The same where it has no name.
        let [was, is] = [old, new].map(|inside| format!("struct {{ {inside} }} held;"));
        assert_eq!(told(["", "", &was], ["", "", &is]).unwrap(), retyped);
    }
    // A pointer's target is told by its name alone.
    let [was, is] = ["int32_t a;", "float a;"].map(pair);
    let held = "struct Pair* held;";
    assert_eq!(told([&was, "", held], [&is, "", held]).unwrap(), []);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_function_that_is_called_in_another_way_is_refused() {
    let other = "__attribute__((ms_abi))";
    let typedef = |how: &str| format!("typedef int* {how} XLA_FFI_Get(int*);");
    let read = |before: String, last: &str| {
        let text = format!("{before}\nstruct XLA_FFI_Api {{ long size; {last} }};\n");
        // GCC's debug information says nothing of it.
        Source::from_text(Path::new("called.h"), text).read(Reader::Clang)
    };
    let slot = format!("int ({other} *slot)(int);");
    for (before, last) in [
        (typedef(other), ""),
        (typedef(other), "XLA_FFI_Get* get;"),
        (String::new(), slot.as_str()),
        (
            String::new(),
            "int (__attribute__((vectorcall)) *slot)(int);",
        ),
        (format!("int {other} XLA_FFI_Get(int);"), ""),
    ] {
        match read(before.clone(), last) {
            Err(Error::Called { convention, .. }) => assert!(!convention.is_empty()),
            Err(Error::Missing(why)) => return skip("how a function is called", &why),
            other => panic!("{before} {last}: {other:?}"),
        }
    }
    for how in ["", "__attribute__((sysv_abi))", "__attribute__((cdecl))"] {
        let read = read(typedef(how), "XLA_FFI_Get* get;");
        assert!(read.is_ok(), "{how}: {read:?}");
    }
}

#[test]
fn types_that_hold_or_take_one_another_without_end_are_refused() {
    let levels = |first: &str, next: &dyn Fn(usize) -> String| {
        let next: String = (1..40).map(next).collect();
        format!("{first}{next}")
    };
    // A kilobyte, and 2³⁹ of the first; they are empty, so that no struct is too large for a compiler.
    let held = levels("struct T0 { };\n", &|level| {
        let below = level - 1;
        format!("struct T{level} {{ struct T{below} a[0]; struct T{below} b[0]; }};\n")
    });
    let taken = levels("typedef int T0(int);\n", &|level| {
        let below = level - 1;
        format!("typedef int T{level}(T{below}*, T{below}*);\n")
    });
    for (before, last) in [(held, "struct T39 held;"), (taken, "T39* held;")] {
        let text = format!("{before}struct XLA_FFI_Buffer {{ {last} }};\n");
        for reader in [Reader::Clang, Reader::Dwarf] {
            match Source::from_text(Path::new("endless.h"), text.clone()).read(reader) {
                Err(Error::Endless { .. } | Error::Deep | Error::Dwarf(_)) => {}
                Err(Error::Missing(why)) => skip("types without end", &why),
                Err(error) => panic!("{error}"),
                // What is told 32 levels deep may be little; it is too long to be shown here.
                Ok(_) => assert!(reader == Reader::Dwarf, "libclang's reader tells it all"),
            }
        }
    }
}
