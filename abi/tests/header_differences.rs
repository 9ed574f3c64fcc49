//! Tests that all differences between headers are found, not only differences of struct layouts. Examples are types
//! that a function takes by value, types in typedefs, and types nested in structs. Differences in signs, symbols,
//! variables and numbers are also found.

use std::path::Path;
use xla_ffi_abi::diff::{Class, changes};
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::Abi;
use xla_ffi_testing::skip;

fn read(text: &str) -> Result<Abi, Error> {
    let text = format!("#include <stdint.h>\n{text}\nstruct XLA_FFI_Buffer {{ int32_t kind; }};\n");
    Source::from_text(Path::new("told.h"), text).read()
}

/// Returns the class and name of each change between two headers; `None` without libclang.
fn told(old: &str, new: &str) -> Option<Vec<(Class, String)>> {
    let read = |text: &str| match read(text) {
        Ok(abi) => Some(abi),
        Err(Error::Missing(why)) => {
            skip("what headers differ in", &why);
            None
        }
        Err(error) => panic!("{text}: {error}"),
    };
    let changes = changes(&read(old)?, &read(new)?);
    let told = changes.iter().map(|change| (change.class, change.path()));
    Some(told.collect())
}

/// Asserts that `expected` is among the changes between two headers, and that a header does not differ from itself.
fn tells(old: &str, new: &str, expected: &str) {
    let Some(changes) = told(old, new) else {
        return;
    };
    let mut lines = changes
        .iter()
        .map(|(class, path)| format!("{class:?} {path}"));
    assert!(
        lines.any(|line| line == expected),
        "{old} | {new}: {changes:?}"
    );
    assert_eq!(told(old, old).unwrap(), []);
}

/// Checks each line of a table. A line contains an expected change, a header in which `@` is a placeholder, and the old
/// and the new text for `@`.
fn all_tell(table: &str) {
    for line in table.trim().lines() {
        let [change, text, was, is] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let [old, new] = pair(text, was, is);
        tells(&old, &new, change);
    }
}

/// Returns the text `text` twice, with `@` replaced by `was` and by `is`.
fn pair(text: &str, was: &str, is: &str) -> [String; 2] {
    [was, is].map(|word| text.replace('@', word))
}

#[test]
fn what_a_function_takes_and_gives_by_value_is_told() {
    let types = [
        ("struct Mine { @ a; };", "int", "float"),
        ("struct Mine { int a; @ };", "", "double b, c;"),
        ("struct Mine { @ a; };", "int", "struct { char b; } "),
        ("union Mine { @ a; };", "int", "float"),
        (
            "struct Mine { int a; } @;",
            "",
            "__attribute__((aligned(64)))",
        ),
        ("@ Mine { int a; };", "struct", "union"),
        ("enum Mine : @ { A = 1 };", "char", "long"),
        ("enum Mine : @ { A = 1 };", "int", "unsigned"),
        ("enum Mine { A = @ };", "1", "2"),
        (
            "struct In { @ a; }; struct Mine { In in; };",
            "int",
            "float",
        ),
    ];
    let uses = [
        ("typedef void XLA_FFI_New(Mine);", "XLA_FFI_New"),
        ("typedef Mine XLA_FFI_New(void);", "XLA_FFI_New"),
        ("typedef void XLA_FFI_New(void (*)(Mine));", "XLA_FFI_New"),
        ("extern \"C\" void XLA_FFI_New(const Mine);", "XLA_FFI_New"),
        ("struct XLA_FFI_T { Mine (*get)(void); };", "XLA_FFI_T.get"),
        (
            "struct XLA_FFI_T { void (**put)(int, Mine); };",
            "XLA_FFI_T.put",
        ),
    ];
    for (index, (text, was, is)) in types.into_iter().enumerate() {
        // To save time, only the first type is tested in all uses, and every other type in one use.
        for (usage, path) in uses
            .iter()
            .skip(index % 6)
            .take(if index == 0 { 6 } else { 1 })
        {
            let [old, new] = pair(&format!("{text} {usage}"), was, is);
            tells(&old, &new, &format!("Retyped {path}"));
        }
    }
}

#[test]
fn what_stands_behind_a_typedef_of_another_tag_is_told() {
    all_tell(
        r#"
Retyped XLA_FFI_Foo | typedef struct tag { @ a; } XLA_FFI_Foo; | int | float
Retyped XLA_FFI_Foo | typedef struct tag { int @; } XLA_FFI_Foo; typedef void XLA_FFI_Use(XLA_FFI_Foo*); | a, b | b, a
Retyped XLA_FFI_Foo | typedef union tag { @ a; } XLA_FFI_Foo; | int | float
Retyped XLA_FFI_Foo | typedef enum tag { A = @ } XLA_FFI_Foo; | 1 | 2
Retyped XLA_FFI_Foo | struct tag { @ a; }; typedef struct tag XLA_FFI_Foo[2]; | int | float
Retyped XLA_FFI_Foo | typedef struct tag XLA_FFI_Foo; struct tag { @ a; }; | int | float
"#,
    );
    // The struct `tag` has no definition, so the model contains its name instead of its fields.
    let text = "typedef struct tag XLA_FFI_Foo;";
    if let Ok(abi) = read(text) {
        assert_eq!(abi.aliases["XLA_FFI_Foo"], "tag");
    }
}

#[test]
fn what_is_declared_within_a_struct_is_the_headers() {
    all_tell(
        r#"
Retyped XLA_FFI_In.a | struct XLA_FFI_Out { struct XLA_FFI_In { @ a; } in; }; | int | float
Retyped XLA_FFI_In.a | struct XLA_FFI_Out { union XLA_FFI_In { int b; @ a; }* in; }; | int | float
Retyped XLA_FFI_In.a | struct XLA_FFI_Out { struct { struct XLA_FFI_In { @ a; } in; } part; }; | int | float
EnumValueChanged XLA_FFI_In.XLA_FFI_A | struct XLA_FFI_Out { enum XLA_FFI_In { XLA_FFI_A = @ } in; }; | 1 | 2
Retyped XLA_FFI_In | struct XLA_FFI_Out { typedef @ XLA_FFI_In; XLA_FFI_In* in; }; | int | float
"#,
    );
}

#[test]
fn bases_open_arrays_unions_and_signs_are_told() {
    all_tell(
        r#"
Retyped XLA_FFI_T | struct Base { @ q; }; struct XLA_FFI_T : Base { int z; }; | int | float
Retyped XLA_FFI_T | struct A { int a; }; struct B { int b; }; struct XLA_FFI_T : @ { int z; }; | A, B | B, A
Retyped XLA_FFI_T.held | struct Base { @ q; }; struct Mine : Base { }; struct XLA_FFI_T { Mine held; }; | int | float
Retyped XLA_FFI_T.m | struct Mine { @ a; }; struct XLA_FFI_T { int n; Mine m[]; }; | int | float
Retyped XLA_FFI_T.m | struct Mine { @ a; }; struct XLA_FFI_T { int n; Mine m[][2]; }; | int | float
Retyped XLA_FFI_T | @ XLA_FFI_T { int m; }; | struct | union
Retyped XLA_FFI_E | enum XLA_FFI_E : @ char { XLA_FFI_A = 1 }; | signed | unsigned
Retyped XLA_FFI_E | enum XLA_FFI_E : @ { XLA_FFI_A = (@)-1 }; | int64_t | uint64_t
Retyped XLA_FFI_T.m | enum Mine : @ char { A = 1 }; struct XLA_FFI_T { enum Mine m; }; | signed | unsigned
Retyped XLA_FFI_T.m | struct XLA_FFI_T { _Complex @ m; }; | int | float
"#,
    );
}

#[test]
fn numbers_that_are_computed_are_told() {
    for (was, is) in [
        ("(1 << 3)", "(1 << 4)"),
        ("(0x1|0x2)", "(0x1|0x4)"),
        ("'A'", "'B'"),
        ("((uint32_t)3)", "((uint32_t)4)"),
        ("\\\n 3", "\\\n 4"),
        ("(XLA_FFI_BASE + 1)", "(XLA_FFI_BASE + 2)"),
        ("3 // three", "4 /* four */"),
    ] {
        let text = "#define XLA_FFI_FLAG @\n#define XLA_FFI_BASE 16\n";
        let [old, new] = pair(text, was, is);
        tells(&old, &new, "ConstantChanged XLA_FFI_FLAG");
    }
    // A macro is a constant only if its value is an integer.
    for value in ["1.5", "(char*)0", "{1}", "XLA_FFI_Other", "<< 3", "1e5"] {
        let text = format!("#define XLA_FFI_FLAG {value}\n");
        if let Ok(abi) = read(&text) {
            assert_eq!(abi.constants.len(), 0, "{value}");
        }
    }
}

#[test]
fn constants_variables_and_symbols_are_told() {
    all_tell(
        r#"
ConstantChanged XLA_FFI_K | static const int XLA_FFI_K = @; | 3 | 4
ConstantChanged XLA_FFI_K | constexpr long XLA_FFI_K = 1 << @; | 3 | 4
ConstantChanged XLA_FFI_K | struct XLA_FFI_Out { enum { XLA_FFI_K = @ }; int in; }; | 1 | 2
Retyped XLA_FFI_K | extern @ XLA_FFI_K; | int | double
Retyped XLA_FFI_K | extern "C" { extern const @ XLA_FFI_K[4]; } | int | float
Renamed XLA_FFI_K | extern "@" int XLA_FFI_K(void); | C | C++
Renamed XLA_FFI_K | extern "C" int XLA_FFI_K(void) @; |  | __asm__("Other")
"#,
    );
}

#[test]
fn fields_of_what_has_no_name_are_the_holders() {
    let header = |last: &str| format!("struct XLA_FFI_T {{ int32_t kind; int64_t rank; {last} }};");
    let last =
        "struct { int64_t a; union { int32_t b : 9; struct { int32_t c, d; int32_t : 5; }; }; };";
    let Ok(abi) = read(&header(last)) else {
        return;
    };
    let fields = &abi.structs["XLA_FFI_T"].fields;
    let places = fields
        .iter()
        .map(|field| (field.name.as_str(), field.offset));
    let expected = [
        ("kind", 0),
        ("rank", 8),
        ("a", 16),
        ("b", 24),
        ("c", 24),
        ("d", 28),
    ];
    assert_eq!(places.collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_in_a_type_of_another_name_is_compared() {
    for (old, new) in [
        ("int32_t a; int32_t b;", "int32_t b; int32_t a;"),
        ("int32_t a : 3; int32_t b;", "int32_t a : 4; int32_t b;"),
        ("int64_t* a;", "int32_t* a;"),
        ("enum { A = 1, B = 2 } a;", "enum { A = 1, B = 3 } a;"),
        (
            "union { int32_t a; float b; } c;",
            "union { int32_t a; int32_t b; } c;",
        ),
    ] {
        for held in ["struct Pair held;", "struct Pair held[2];"] {
            let [was, is] = [old, new].map(|inside| {
                format!("struct Pair {{ {inside} }}; struct XLA_FFI_T {{ {held} }};")
            });
            tells(&was, &is, "Retyped XLA_FFI_T.held");
        }
        // An unnamed struct must have the same result as a named struct.
        let [was, is] =
            [old, new].map(|inside| format!("struct XLA_FFI_T {{ struct {{ {inside} }} held; }};"));
        tells(&was, &is, "Retyped XLA_FFI_T.held");
    }
    // The model contains only the name of a pointer's target, so a change of the target's fields is not found.
    let [was, is] = ["int32_t a;", "float a;"].map(|inside| {
        format!("struct Pair {{ {inside} }}; struct XLA_FFI_T {{ struct Pair* held; }};")
    });
    assert_eq!(told(&was, &is).unwrap_or_default(), []);
}
