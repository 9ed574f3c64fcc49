//! Tests the effects of header changes at run time: typical edits by vendors, fields in padding, and structs that grow.

use std::path::Path;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff::{Change, Class, changes};
use xla_ffi_abi::header::{Error, Language, Source};
use xla_ffi_abi::meaning::Severity;
use xla_ffi_abi::model::Field;
use xla_ffi_testing::{root, skip};

fn ours() -> String {
    std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap()
}

/// Returns the changes from revision r10 to the header `source`, under the names in the header; `None` without
/// libclang.
fn changes_of(source: Source) -> Option<Result<Vec<Change>, Error>> {
    let (abi, places) = match source.read_with_places() {
        Ok(read) => read,
        Err(Error::Missing(why)) => {
            skip("what changes mean", &why);
            return None;
        }
        Err(error) => return Some(Err(error)),
    };
    let mut changes = changes(&Edition::find("r10").unwrap().declared(), &abi);
    places.apply(&mut changes);
    Some(Ok(changes))
}

fn source(text: &str) -> Source {
    Source::from_text(Path::new("c_api.h"), text.to_owned())
}

/// Returns one line per change that is not a consequence of a different change.
fn own(changes: &[Change]) -> Vec<String> {
    let own = changes.iter().filter(|change| !change.follows);
    let told = own.map(|one| format!("{:?} {} {}", one.class, one.path(), one.effect.severity()));
    told.map(|told| told.replace("XLA_FFI_", "")).collect()
}

/// One edit per line: the struct, the replaced text, the new text, and the expected changes.
const EDITS: &str = r#"
Buffer | int64_t rank; | union { int64_t rank; uint64_t order; }; | Inserted Buffer.order harmless
Buffer | int64_t rank; | union { int64_t rank; struct { int32_t a, b; }; }; | Inserted Buffer.a harmless, Inserted Buffer.b harmless
Buffer | int64_t rank; | uint64_t a : 8; uint64_t b : 56; | Removed Buffer.rank harmless, Inserted Buffer.a harmless, Inserted Buffer.b harmless
Buffer | int64_t rank; | int64_t rank : 8; int64_t b : 56; | Inserted Buffer.b harmless, Retyped Buffer.rank breaks
Buffer | int64_t rank; | int32_t rank; int32_t b; | Inserted Buffer.b harmless, Resized Buffer.rank breaks
Buffer | int64_t rank; | int32_t a; int32_t b; | Removed Buffer.rank breaks, Inserted Buffer.a harmless, Inserted Buffer.b harmless
Buffer | int64_t* dims; | int64_t* dims; int64_t more[]; | AddedAtEnd Buffer.more breaks
Buffer | int64_t* dims; | int64_t* dims; char more[0]; | AddedAtEnd Buffer.more breaks
Buffer | dtype; | dtype; int32_t in_padding; | Inserted Buffer.in_padding breaks
Buffer | XLA_FFI_DataType dtype; | union { XLA_FFI_DataType dtype; uint8_t in_padding[8]; }; | Inserted Buffer.in_padding breaks
Api | XLA_FFI_InternalApi* | void* | Retyped Api.internal_api harmless
Api | XLA_FFI_InternalApi* | struct VendorApi* | Retyped Api.internal_api harmless
Api | const XLA_FFI_InternalApi* | uintptr_t | Retyped Api.internal_api harmless
Api | XLA_FFI_InternalApi* | XLA_FFI_Buffer* | Retyped Api.internal_api breaks
Api | XLA_FFI_InternalApi* | XLA_FFI_Error* | Retyped Api.internal_api breaks
Error_Create_Args | char* | uint8_t* | Retyped Error_Create_Args.message harmless
Buffer | XLA_FFI_DataType dtype | uint32_t dtype | Retyped Buffer.dtype harmless
Buffer | XLA_FFI_DataType dtype | int32_t dtype | Retyped Buffer.dtype breaks
Buffer | XLA_FFI_DataType dtype | float dtype | Retyped Buffer.dtype breaks
Buffer | int64_t rank; | uint64_t rank; | Retyped Buffer.rank breaks
Buffer | int64_t rank; | union { int64_t i; double d; } rank; | Retyped Buffer.rank harmless
Buffer | int64_t rank; | struct { int32_t i; float d; } rank; | Retyped Buffer.rank breaks
Metadata | XLA_FFI_TypeId state_type_id | int64_t state_type_id | Retyped Metadata.state_type_id harmless
ThreadPool_Schedule_Args | void (*task)(void* data); | void* task; | Retyped ThreadPool_Schedule_Args.task harmless
ThreadPool_Schedule_Args | void (*task) | int64_t (*task) | Retyped ThreadPool_Schedule_Args.task breaks
ThreadPool_Schedule_Args | void (*task)(void* data); | XLA_FFI_Task* task; |
ThreadPool_Schedule_Args | void (*task)(void* data); | void (*task)(void* const other); |
- | typedef void XLA_FFI_Task(void* data); | using XLA_FFI_Task = void(void*); |
- | typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame); | typedef XLA_FFI_Error* (*XLA_FFI_Handler)(XLA_FFI_CallFrame* const frame); |
- | typedef void XLA_FFI_Task(void* data); | typedef void XLA_FFI_Task(void*); typedef void (*XLA_FFI_TaskFn)(void*); | Added TaskFn harmless
- | struct XLA_FFI_Buffer { | struct XLA_FFI_InternalApi { int a; }; struct XLA_FFI_Buffer { | Added InternalApi breaks
- | struct XLA_FFI_Buffer { | struct XLA_FFI_Error {}; struct XLA_FFI_Buffer { | Added Error breaks
"#;

#[test]
fn edits_as_vendors_make_them_have_true_effects() {
    for case in EDITS.trim().lines() {
        let [place, from, to, told] = case.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let text = ours();
        let at = text
            .find(&format!("struct XLA_FFI_{place} {{"))
            .unwrap_or(0);
        let (before, after) = text.split_at(at);
        assert!(after.contains(from), "{case}");
        let text = format!("{before}{}", after.replacen(from, to, 1));
        let Some(found) = changes_of(source(&text)) else {
            return;
        };
        let found = found.unwrap();
        assert_eq!(own(&found).join(", "), told, "{case}");
        let words = format!("{found:?}").replace("in_padding", "");
        assert_eq!(
            words.contains("padding"),
            case.contains("in_padding"),
            "{case}"
        );
    }
}

#[test]
fn a_body_behind_a_typedef_of_an_opaque_type_breaks() {
    let declared = "typedef struct XLA_FFI_Future XLA_FFI_Future;";
    let text = ours().replace(declared, "typedef struct tag { int a; } XLA_FFI_Future;");
    if let Some(found) = changes_of(source(&text)) {
        let mut found = own(&found.unwrap());
        found.retain(|told| told.ends_with("breaks"));
        assert_eq!(found, ["Added Future breaks"]);
    }
}

/// Returns this project's `c_api.h` inside a namespace, without the prefixes of its names.
fn in_namespace(open: &str, close: &str) -> String {
    let text = ours().replace("XLA_FFI_", "");
    let text = text.replace("#ifdef __cplusplus\nextern \"C\" {\n#endif", open);
    text.replace("#ifdef __cplusplus\n}\n#endif", close)
}

#[test]
fn namespaces_count_by_their_whole_name() {
    for case in [
        "namespace acme::ffi { | } | acme::ffi | reads",
        "namespace acme { namespace ffi { | }} | acme::ffi | reads",
        "namespace acme { inline namespace v1 { | }} | acme | reads",
        "namespace acme { extern \"C\" { | }} | ::acme | reads",
        "namespace other { struct Buffer { int x; }; } namespace acme::ffi { | } | acme::ffi | reads",
        "namespace acme::ffi { | } | other | is foreign",
        "namespace acme::ffi { | } | ffi | is foreign",
    ] {
        let [open, close, namespace, outcome] = case.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let told = match changes_of(source(&in_namespace(open, close)).namespace(namespace)) {
            None => return,
            Some(Ok(found)) if found.is_empty() => "reads",
            Some(Err(Error::Foreign { .. })) => "is foreign",
            other => panic!("{case}: {other:?}"),
        };
        assert_eq!(told, outcome, "{case}");
    }
}

#[test]
fn copies_are_reported_under_their_own_names_and_lines() {
    let spaced = in_namespace("namespace acme::ffi {", "}");
    let prefixed = ours().replace("XLA_FFI_", "MY_");
    for (text, prefix) in [(spaced, ""), (prefixed, "MY_")] {
        let buffer = format!("struct {prefix}Buffer {{");
        let more = format!("struct {prefix}Buffer2 {{ int a; }};\n{buffer}");
        let text = text.replace("  int64_t rank;", "  int32_t rank;");
        let text = text
            .replace("API_MINOR 5", "API_MINOR 6")
            .replace(&buffer, &more);
        let source = match prefix {
            "" => source(&text).namespace("acme::ffi"),
            prefix => source(&text).prefix(prefix),
        };
        let Some(found) = changes_of(source) else {
            return;
        };
        let found = found.unwrap();
        let found = found.iter().filter(|change| !change.follows);
        let found: Vec<_> = found.map(|change| (change.path(), change.line)).collect();
        let parts = [
            ("Buffer.rank", "int32_t rank;"),
            ("Buffer2", "Buffer2 {"),
            ("API_MINOR", "API_MINOR 6"),
        ];
        let expected = parts.map(|(name, line)| {
            let line = text.lines().position(|one| one.contains(line));
            (format!("{prefix}{name}"), line.map(|line| line as u32 + 1))
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn headers_in_c_are_read_as_c() {
    let text = ours().replace(
        "#include <stdint.h>\n",
        r#"
#include <stdint.h>
#include <stdarg.h>
#include <limits.h>
#include <stdbool.h>
#include <inttypes.h>
_Static_assert(INT_MAX > 0 && ULLONG_MAX > 1, "limits");
void vendor_log(const char* restrict format, va_list arguments);
static inline _Bool vendor_is(const char* restrict a, bool b) { return a && b; }
"#,
    );
    let narrow = text.replace("  int64_t rank;", "  int32_t rank;");
    for (text, told) in [(&text, ""), (&narrow, "Resized Buffer.rank breaks")] {
        let Some(found) = changes_of(source(text).language(Language::C)) else {
            return;
        };
        assert_eq!(own(&found.unwrap()).join(", "), told);
    }
    let error = changes_of(source(&text)).unwrap().unwrap_err();
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

/// Adds a field to the first hole of a struct in the newest header. Returns the severity for an older handler, the
/// severity for an older runtime, and the reasons.
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
    // The runtime fills `XLA_FFI_Buffer`, so only handlers with the new header read bytes that an older runtime does
    // not fill.
    let (old, new, words) = in_first_hole("XLA_FFI_Buffer");
    assert_eq!((old, new), (Severity::None, Severity::Breaks), "{words}");
    // The handler fills these arguments, so only runtimes with the new header read bytes that an older handler does not
    // fill.
    let (old, new, words) = in_first_hole("XLA_FFI_Error_Create_Args");
    assert_eq!((old, new), (Severity::Breaks, Severity::None), "{words}");
}

#[test]
fn growth_is_judged_where_the_struct_is_held() {
    let old = Edition::find("r10").unwrap().declared();
    let mut new = old.clone();
    // The call frame contains `XLA_FFI_Args` and `XLA_FFI_Attrs` before other fields, which move if these structs grow.
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
