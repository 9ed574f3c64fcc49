//! Tests the import of known headers and of modified headers.

use super::*;
use xla_ffi_abi::declared::EDITIONS;
use xla_ffi_sys::JAXLIBS;

/// Possible future changes by upstream, as edits of the newest header. The import must detect each change.
const R11: [(&str, &str); 5] = [
    ("#define XLA_FFI_API_MINOR 5", "#define XLA_FFI_API_MINOR 6"),
    (
        "  XLA_FFI_ExecutionStage_RECORD = 4,\n",
        "  XLA_FFI_ExecutionStage_RECORD = 4,\n  XLA_FFI_ExecutionStage_FINALIZE = 5,\n",
    ),
    (
        "  int32_t device_ordinal;  // out\n};\n\nXLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);",
        "  int32_t device_ordinal;  // out\n  int64_t local_id;  // out\n};\n\n\
         XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_DeviceOrdinal_Get_Args, local_id);",
    ),
    // This function has plain parameters instead of an `_Args` struct.
    (
        "#define _XLA_FFI_API_STRUCT_FIELD(",
        "typedef XLA_FFI_Error* XLA_FFI_Clock_Get(XLA_FFI_InvokeContext* ctx,\n\
         int32_t clock, int64_t* nanoseconds);\n#define _XLA_FFI_API_STRUCT_FIELD(",
    ),
    (
        "  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_CustomOptions_Get);\n};\n\n#undef _XLA_FFI_API_STRUCT_FIELD\n\n\
         XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Api, XLA_FFI_CustomOptions_Get);",
        "  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_CustomOptions_Get);\n\
         _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Clock_Get);\n};\n\n#undef _XLA_FFI_API_STRUCT_FIELD\n\n\
         XLA_FFI_DEFINE_STRUCT_TRAITS(XLA_FFI_Api, XLA_FFI_Clock_Get);",
    ),
];

/// A new extension in the form that upstream discusses, in which functions have plain parameters.
const TIMER: &str = r#"
    #include "xla/ffi/api/c_api.h"
    #define XLA_FFI_Extension_Timer 130
    typedef struct XLA_FFI_Timer XLA_FFI_Timer;
    typedef struct XLA_FFI_Timer_Extension {
      XLA_FFI_Extension base;
      void (*stop)(XLA_FFI_Timer* timer, void (*done)(void* data, int32_t code), void* data);
    } XLA_FFI_Timer_Extension;
    XLA_FFI_Error* XLA_FFI_Timer_Read(const XLA_FFI_Timer* timer, int64_t* nanoseconds);
"#;

/// Creates the include folder of a fictitious release, by editing the headers of the newest wheel.
fn made_up(headers: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let api = folder.path().join("xla/ffi/api");
    std::fs::create_dir_all(&api).unwrap();
    let newest = xla_ffi_testing::headers::api_folder(headers, JAXLIBS.last().unwrap());
    for header in Header::ALL {
        let mut text = std::fs::read_to_string(newest.join(header.file_name())).unwrap();
        if header == Header::Main {
            for (from, to) in R11 {
                assert_eq!(text.matches(from).count(), 1, "{from}");
                text = text.replace(from, to);
            }
        }
        std::fs::write(api.join(header.file_name()), text).unwrap();
    }
    std::fs::write(api.join("timer_c_api.h"), TIMER).unwrap();
    folder
}

#[test]
fn a_made_up_revision_is_proposed_with_diff_and_harm() {
    let name = "a_made_up_revision_is_proposed_with_diff_and_harm";
    let Some(headers) = xla_ffi_testing::headers::folder_or_skip(name) else {
        return;
    };
    let include = made_up(&headers);
    let out = tempfile::tempdir().unwrap();
    let outcomes = match import("0.13.0", include.path(), out.path()) {
        Ok(outcomes) => outcomes,
        Err(error) if error.is::<xla_ffi_abi::header::Error>() => {
            return xla_ffi_testing::skip(name, &format!("{error:#}"));
        }
        Err(error) => panic!("{error:#}"),
    };
    let [main, record, collectives, timer] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    for known in [record, collectives] {
        assert!(known.file.is_none() && known.text.contains("revision r10"));
    }
    let proposed = |outcome: &Outcome| {
        let file = outcome.file.as_ref().unwrap();
        snapshot::parse("proposed", &std::fs::read_to_string(file).unwrap()).unwrap()
    };
    // The proposed snapshot must contain the newest layouts with the edits applied.
    let (abi, newest) = (
        proposed(main),
        Edition::of_revision(Revision::NEWEST).declared(),
    );
    let clock = "fn(*mut XLA_FFI_InvokeContext, i32, *mut i64) -> *mut XLA_FFI_Error";
    let slot = abi.structs["XLA_FFI_Api"].field("XLA_FFI_Clock_Get");
    let slot = slot.unwrap();
    let end = newest.structs["XLA_FFI_Api"].size;
    assert_eq!((slot.offset, slot.ty.as_str()), (end, clock));
    let harms = |path: &str| {
        let changes = xla_ffi_abi::diff::changes(&newest, &abi);
        let change = changes.iter().find(|change| change.path() == path);
        let change = change.unwrap_or_else(|| panic!("{path} is not told"));
        assert!(main.text.contains(&change.to_string()), "{change}");
        (
            change.effect.old_on_new.severity,
            change.effect.new_on_old.severity,
        )
    };
    for (path, old_on_new, new_on_old) in [
        (
            "XLA_FFI_Api.XLA_FFI_Clock_Get",
            Severity::None,
            Severity::Breaks,
        ),
        (
            "XLA_FFI_DeviceOrdinal_Get_Args.local_id",
            Severity::Lacks,
            Severity::None,
        ),
        (
            "XLA_FFI_ExecutionStage.XLA_FFI_ExecutionStage_FINALIZE",
            Severity::Lacks,
            Severity::Lacks,
        ),
    ] {
        assert_eq!(harms(path), (old_on_new, new_on_old), "{path}");
    }
    assert!(main.text.ends_with("it is a new revision, r11\n"));
    let abi = proposed(timer);
    assert_eq!(abi.header(), Header::Other);
    let stop = abi.structs["XLA_FFI_Timer_Extension"].field("stop");
    let ty = "fn(*mut XLA_FFI_Timer, fn(*mut void, i32), *mut void)";
    assert_eq!(stop.unwrap().ty, ty);
}

#[test]
fn history_agrees_on_what_a_revision_is() {
    let main: Vec<Edition> = EDITIONS
        .into_iter()
        .filter(|edition| edition.header == Header::Main)
        .collect();
    for pair in main.windows(2) {
        let changes = xla_ffi_abi::diff::changes(&pair[0].declared(), &pair[1].declared());
        let expected = pair[0].revision != pair[1].revision;
        assert_eq!(
            is_revision(&changes),
            expected,
            "{} to {}",
            pair[0].name(),
            pair[1].name()
        );
    }
}
