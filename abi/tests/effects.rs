//! What changes of a header mean at run time: edits as vendors make them, fields in padding, and growth of structs.

use std::path::Path;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff::{Change, Class, changes};
use xla_ffi_abi::header::{Error, Language, Source};
use xla_ffi_abi::meaning::Severity;
use xla_ffi_abi::model::Field;
use xla_ffi_testing::{root, skip};

/// Our header after replacements, each of which changes something.
fn edited(edits: &[(&str, &str)]) -> String {
    let path = root().join("include/xla/ffi/api/c_api.h");
    let text = std::fs::read_to_string(path).unwrap();
    edits.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// The changes from r10 to a header, under the header's own names; `None` without libclang.
fn changes_of(text: &str, set: impl Fn(Source) -> Source) -> Option<Result<Vec<Change>, Error>> {
    let source = set(Source::from_text(Path::new("c_api.h"), text.to_owned()));
    match source.read_with_places() {
        Ok((abi, places)) => {
            let r10 = Edition::find("r10").unwrap().declared();
            let mut changes = changes(&r10, &abi);
            places.apply(&mut changes);
            Some(Ok(changes))
        }
        Err(Error::Missing(why)) => {
            skip("what changes mean", &why);
            None
        }
        Err(error) => Some(Err(error)),
    }
}

/// The changes that follow from no other: class, path and severity.
fn own(changes: &[Change]) -> Vec<(Class, String, Severity)> {
    let own = changes.iter().filter(|change| !change.follows);
    own.map(|change| (change.class, change.path(), change.effect.severity()))
        .collect()
}

const RANK: &str = "  int64_t rank;";
const DTYPE: &str = "  XLA_FFI_DataType dtype;\n  // First element; may be null when a dimension";
const DIMS: &str = "  int64_t* dims;\n};";
const TASK: &str = "  void (*task)(void* data);";
const TYPES: &str = "// A handler: null is success";

#[test]
fn bytes_that_fields_share_are_no_padding() {
    use Class::{AddedAtEnd, Inserted, Removed, Resized, Retyped};
    use Severity::{Breaks, None};
    let bits = "  uint64_t a : 8; uint64_t b : 56;";
    let cases: &[(&str, &str, &[(Class, &str, Severity)])] = &[
        (
            RANK,
            "  union { int64_t rank; uint64_t order; };",
            &[(Inserted, "order", None)],
        ),
        (
            RANK,
            "  union { int64_t rank; struct { int32_t a, b; }; };",
            &[(Inserted, "a", None), (Inserted, "b", None)],
        ),
        (
            RANK,
            bits,
            &[
                (Removed, "rank", None),
                (Inserted, "a", None),
                (Inserted, "b", None),
            ],
        ),
        (
            RANK,
            "  int64_t rank : 8; int64_t b : 56;",
            &[(Retyped, "rank", Breaks), (Inserted, "b", None)],
        ),
        (
            RANK,
            "  int32_t rank; int32_t b;",
            &[(Resized, "rank", Breaks), (Inserted, "b", None)],
        ),
        (
            RANK,
            "  int32_t a; int32_t b;",
            &[
                (Removed, "rank", Breaks),
                (Inserted, "a", None),
                (Inserted, "b", None),
            ],
        ),
        (
            DIMS,
            "  int64_t* dims;\n  int64_t more[];\n};",
            &[(AddedAtEnd, "more", Breaks)],
        ),
        (
            DIMS,
            "  int64_t* dims;\n  char more[0];\n};",
            &[(AddedAtEnd, "more", Breaks)],
        ),
    ];
    for (from, to, expected) in cases {
        let text = edited(&[(from, to)]);
        let Some(found) = changes_of(&text, |source| source) else {
            return;
        };
        let found = found.unwrap();
        let buffer: Vec<_> = own(&found)
            .into_iter()
            .filter(|(_, path, _)| path.starts_with("XLA_FFI_Buffer."))
            .collect();
        for (class, member, severity) in *expected {
            let expected = (*class, format!("XLA_FFI_Buffer.{member}"), *severity);
            assert!(
                buffer.contains(&expected),
                "{to}: {expected:?} in {buffer:#?}"
            );
        }
        assert_eq!(buffer.len(), expected.len(), "{to}: {buffer:#?}");
        for effect in found.iter().map(|change| &change.effect) {
            let words = format!("{} {}", effect.old_on_new.why, effect.new_on_old.why);
            assert!(!words.contains("padding"), "{to}: {words}");
        }
    }
    // These bytes are padding after `dtype`.
    let text = edited(&[(
        DTYPE,
        &DTYPE.replace(
            "XLA_FFI_DataType dtype;",
            "XLA_FFI_DataType dtype; int32_t more;",
        ),
    )]);
    let found = changes_of(&text, |source| source).unwrap().unwrap();
    assert!(
        found[0].effect.new_on_old.why.contains("padding"),
        "{found:#?}"
    );
}

#[test]
fn the_same_bytes_are_no_break() {
    let (old, new) = (
        "const XLA_FFI_InternalApi* internal_api",
        "XLA_FFI_Api.internal_api",
    );
    let message = "XLA_FFI_Error_Create_Args.message";
    let task = "XLA_FFI_ThreadPool_Schedule_Args.task";
    let dtype = |ty: &str| DTYPE.replace("XLA_FFI_DataType", ty);
    for (from, to, path, severity) in [
        (
            old,
            "const void* internal_api".to_owned(),
            new,
            Severity::None,
        ),
        (
            old,
            "const struct VendorApi* internal_api".to_owned(),
            new,
            Severity::None,
        ),
        (
            old,
            "uintptr_t internal_api".to_owned(),
            new,
            Severity::None,
        ),
        (
            old,
            "const XLA_FFI_Buffer* internal_api".to_owned(),
            new,
            Severity::Breaks,
        ),
        (
            old,
            "const XLA_FFI_Error* internal_api".to_owned(),
            new,
            Severity::Breaks,
        ),
        (
            "  const char* message;\n  // The code",
            "  const uint8_t* message;\n  // The code".to_owned(),
            message,
            Severity::None,
        ),
        (
            DTYPE,
            dtype("uint32_t"),
            "XLA_FFI_Buffer.dtype",
            Severity::None,
        ),
        (
            DTYPE,
            dtype("int32_t"),
            "XLA_FFI_Buffer.dtype",
            Severity::Breaks,
        ),
        (
            DTYPE,
            dtype("float"),
            "XLA_FFI_Buffer.dtype",
            Severity::Breaks,
        ),
        (
            RANK,
            "  uint64_t rank;".to_owned(),
            "XLA_FFI_Buffer.rank",
            Severity::Breaks,
        ),
        (
            RANK,
            "  union { int64_t i; double d; } rank;".to_owned(),
            "XLA_FFI_Buffer.rank",
            Severity::None,
        ),
        (
            RANK,
            "  struct { int32_t i; float d; } rank;".to_owned(),
            "XLA_FFI_Buffer.rank",
            Severity::Breaks,
        ),
        (TASK, "  void* task;".to_owned(), task, Severity::None),
        (
            TASK,
            "  int64_t (*task)(void* data);".to_owned(),
            task,
            Severity::Breaks,
        ),
        (
            "XLA_FFI_TypeId state_type_id;",
            "int64_t state_type_id;".to_owned(),
            "XLA_FFI_Metadata.state_type_id",
            Severity::None,
        ),
    ] {
        let text = edited(&[(from, &to)]);
        let Some(found) = changes_of(&text, |source| source) else {
            return;
        };
        let expected = [(Class::Retyped, path.to_owned(), severity)];
        assert_eq!(own(&found.unwrap()), expected, "{to}");
    }
}

#[test]
fn spellings_of_one_function_type_are_equal() {
    let pointer = "typedef XLA_FFI_Error* (*XLA_FFI_Handler)(XLA_FFI_CallFrame* const frame);";
    for edits in [
        &[(TASK, "  XLA_FFI_Task* task;")][..],
        &[(TASK, "  void (*task)(void* const other);")],
        &[
            (TASK, "  Vendor task;"),
            (TYPES, "typedef void (*Vendor)(void*);\n// A handler"),
        ],
        &[(
            "typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame);",
            pointer,
        )],
        &[(
            "typedef void XLA_FFI_Task(void* data);",
            "using XLA_FFI_Task = void(void*);",
        )],
    ] {
        let Some(found) = changes_of(&edited(edits), |source| source) else {
            return;
        };
        assert_eq!(own(&found.unwrap()), [], "{edits:?}");
    }
}

#[test]
fn a_body_for_an_opaque_type_breaks() {
    for (name, body) in [
        (
            "XLA_FFI_InternalApi",
            "struct XLA_FFI_InternalApi { int version; };",
        ),
        ("XLA_FFI_Error", "struct XLA_FFI_Error {};"),
    ] {
        let text = edited(&[(TYPES, &format!("{body}\n{TYPES}"))]);
        let Some(found) = changes_of(&text, |source| source) else {
            return;
        };
        let expected = [(Class::Added, name.to_owned(), Severity::Breaks)];
        assert_eq!(own(&found.unwrap()), expected, "{body}");
    }
    // The same behind a typedef of another tag.
    let declared = "typedef struct XLA_FFI_Future XLA_FFI_Future;";
    let text = edited(&[(declared, "typedef struct tag { int a; } XLA_FFI_Future;")]);
    let found = own(&changes_of(&text, |source| source).unwrap().unwrap());
    let breaks = found
        .into_iter()
        .filter(|(_, _, severity)| *severity == Severity::Breaks);
    let breaks: Vec<_> = breaks.map(|(_, path, _)| path).collect();
    assert_eq!(breaks, ["XLA_FFI_Future"]);
}

/// Our header in a namespace, without prefixes.
fn in_namespace(open: &str, close: &str) -> String {
    edited(&[
        ("XLA_FFI_", ""),
        ("#ifdef __cplusplus\nextern \"C\" {\n#endif", open),
        ("#ifdef __cplusplus\n}\n#endif", close),
    ])
}

#[test]
fn namespaces_count_by_their_whole_name() {
    for (open, close, namespace, reads) in [
        ("namespace acme::ffi {", "}", "acme::ffi", true),
        ("namespace acme { namespace ffi {", "}}", "acme::ffi", true),
        ("namespace acme { inline namespace v1 {", "}}", "acme", true),
        ("namespace acme { extern \"C\" {", "}}", "::acme", true),
        (
            "namespace other { struct Buffer { int x; }; }\nnamespace acme::ffi {",
            "}",
            "acme::ffi",
            true,
        ),
        ("namespace acme::ffi {", "}", "other", false),
        ("namespace acme::ffi {", "}", "ffi", false),
    ] {
        let text = in_namespace(open, close);
        let Some(found) = changes_of(&text, |source| source.namespace(namespace)) else {
            return;
        };
        match found {
            Ok(found) => assert!(reads && found.is_empty(), "{open}: {found:#?}"),
            Err(error) => assert!(!reads && matches!(error, Error::Foreign { .. }), "{error}"),
        }
    }
}

#[test]
fn copies_are_reported_under_their_own_names_and_lines() {
    let spaced = in_namespace("namespace acme::ffi {", "}");
    let prefixed = edited(&[("XLA_FFI_", "MY_")]);
    let edit = |text: &str, owner: &str| {
        let text = text.replace(RANK, "  int32_t rank;");
        let text = text.replace("API_MINOR 5", "API_MINOR 6");
        text.replace(
            &format!("struct {owner} {{"),
            &format!("struct {owner}2 {{ int a; }};\nstruct {owner} {{"),
        )
    };
    for (text, prefix) in [
        (edit(&spaced, "Buffer"), ""),
        (edit(&prefixed, "MY_Buffer"), "MY_"),
    ] {
        let set = |source: Source| match prefix {
            "" => source.namespace("acme::ffi"),
            prefix => source.prefix(prefix),
        };
        let Some(found) = changes_of(&text, set) else {
            return;
        };
        let found = found.unwrap();
        let found = found.iter().filter(|change| !change.follows);
        let found: Vec<_> = found.map(|change| (change.path(), change.line)).collect();
        let line = |of: &str| {
            let index = text.lines().position(|line| line.contains(of));
            index.map(|index| index as u32 + 1)
        };
        let expected = [
            (format!("{prefix}Buffer.rank"), line("  int32_t rank;")),
            (format!("{prefix}Buffer2"), line("Buffer2 {")),
            (format!("{prefix}API_MINOR"), line("API_MINOR 6")),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn headers_in_c_are_read_as_c() {
    let includes = "#include <stdint.h>\n#include <stdarg.h>\n#include <limits.h>\n#include <stdbool.h>\n\
                    #include <inttypes.h>\n_Static_assert(INT_MAX > 0 && ULLONG_MAX > 1, \"limits\");\n\
                    void vendor_log(const char* restrict format, va_list arguments);\n\
                    static inline _Bool vendor_is(const char* restrict a, bool b) { return a && b; }\n";
    let text = edited(&[("#include <stdint.h>\n", includes)]);
    let Some(found) = changes_of(&text, |source| source.language(Language::C)) else {
        return;
    };
    assert_eq!(own(&found.unwrap()), []);
    let narrow = text.replace(RANK, "  int32_t rank;");
    let found = changes_of(&narrow, |source| source.language(Language::C)).unwrap();
    let expected = (
        Class::Resized,
        "XLA_FFI_Buffer.rank".to_owned(),
        Severity::Breaks,
    );
    assert_eq!(own(&found.unwrap()), [expected]);
    let error = changes_of(&text, |source| source).unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Parse {
                language: Language::Cpp,
                ..
            }
        ),
        "{error}"
    );
}

/// A field put into the first hole of a struct of the newest header: what it means, in both directions.
fn in_first_hole(name: &str) -> (Severity, Severity, String) {
    let old = Edition::find("r10").unwrap().declared();
    let mut new = old.clone();
    let layout = new.structs.get_mut(name).unwrap();
    let (start, end) = layout.holes()[0];
    layout.fields.push(Field {
        name: "added".to_owned(),
        ty: "u32".to_owned(),
        offset: start,
        size: end - start,
    });
    layout.fields.sort_by_key(|field| field.offset);
    let changed = changes(&old, &new);
    let change = changed
        .iter()
        .find(|change| change.member.as_deref() == Some("added"))
        .unwrap();
    assert!(matches!(change.class, Class::Inserted | Class::AddedAtEnd));
    let effect = &change.effect;
    let words = format!("{} {}", effect.old_on_new.why, effect.new_on_old.why);
    assert!(
        !words.contains("other offset") && !words.contains("past the end"),
        "{words}"
    );
    (
        effect.old_on_new.severity,
        effect.new_on_old.severity,
        words,
    )
}

#[test]
fn a_field_in_padding_moves_nothing() {
    // The runtime fills it: only a newer handler misses it.
    let (old, new, words) = in_first_hole("XLA_FFI_Buffer");
    assert_eq!((old, new), (Severity::None, Severity::Breaks), "{words}");
    // The handler fills it: only a newer runtime misses it.
    let (old, new, words) = in_first_hole("XLA_FFI_Error_Create_Args");
    assert_eq!((old, new), (Severity::Breaks, Severity::None), "{words}");
}

#[test]
fn growth_is_judged_where_the_struct_is_held() {
    let old = Edition::find("r10").unwrap().declared();
    let mut new = old.clone();
    // Behind `attrs` in the call frame stands `future`; `args` comes before both.
    for name in ["XLA_FFI_Args", "XLA_FFI_Attrs"] {
        let layout = new.structs.get_mut(name).unwrap();
        layout.fields.push(Field {
            name: "more".to_owned(),
            ty: "u64".to_owned(),
            offset: layout.size,
            size: 8,
        });
        layout.size += 8;
    }
    for change in changes(&old, &new) {
        if change.member.as_deref() == Some("more") {
            let (old, new) = (&change.effect.old_on_new, &change.effect.new_on_old);
            assert_eq!(
                (old.severity, new.severity),
                (Severity::Breaks, Severity::Breaks),
                "{change:?}"
            );
            assert!(
                old.why.contains("by value in XLA_FFI_CallFrame, before"),
                "{old:?}"
            );
        }
    }
}
