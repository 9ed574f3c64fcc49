//! Imports of headers that are known, edited and made up.

use super::*;
use xla_ffi_abi::declared::{EDITIONS, witnesses};
use xla_ffi_sys::JAXLIBS;

/// An include folder with our own headers, the main one edited.
fn edited(from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let api = folder.path().join("xla/ffi/api");
    std::fs::create_dir_all(&api).unwrap();
    let ours = jaxlibs::root().join("include/xla/ffi/api");
    for header in Header::ALL {
        let mut text = std::fs::read_to_string(ours.join(header.file_name())).unwrap();
        if header == Header::Main {
            text = text.replacen(from, to, 1);
        }
        std::fs::write(api.join(header.file_name()), text).unwrap();
    }
    folder
}

/// The outcomes; `None`, told as a skip, where nothing here can read a header.
fn outcomes(test: &str, version: &str, include: &Path, out: &Path) -> Option<Vec<Outcome>> {
    match import(version, include, out) {
        Ok(outcomes) => Some(outcomes),
        Err(error) => match error.downcast_ref() {
            Some(xla_ffi_abi::header::Error::Missing(_)) => {
                xla_ffi_testing::skip(test, &format!("{error:#}"));
                None
            }
            _ => panic!("{error:#}"),
        },
    }
}

#[test]
fn known_headers_are_named() {
    let include = edited("// An XLA_FFI_Array.", "// Another comment.");
    let out = tempfile::tempdir().unwrap();
    let Some(outcomes) = outcomes(
        "known_headers_are_named",
        "0.12.1",
        include.path(),
        out.path(),
    ) else {
        return;
    };
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        let Outcome::Known { text } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(text.contains("revision r10"), "{text}");
    }
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_header_is_proposed_with_its_diff() {
    let include = edited("  int64_t rank;", "  uint64_t rank;");
    let out = tempfile::tempdir().unwrap();
    let Some(outcomes) = outcomes(
        "an_unknown_header_is_proposed_with_its_diff",
        "0.13.0",
        include.path(),
        out.path(),
    ) else {
        return;
    };
    let Outcome::Proposed { text, file } = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(text.contains("retyped: XLA_FFI_Buffer.rank"), "{text}");
    assert!(file.is_file());
    let diff = out.path().join("proposed-c_api-0.13.0.diff.txt");
    assert_eq!(std::fs::read_to_string(diff).unwrap(), *text);
    assert!(matches!(outcomes[1], Outcome::Known { .. }));
}

/// What upstream may do next: edits of the newest header, each of which has to be there.
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
    // A function with plain parameters in place of an `_Args` struct.
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

/// A new extension as upstream discusses them: functions with plain parameters.
const TIMER: &str = r#"
    #ifndef XLA_FFI_API_TIMER_C_API_H_
    #define XLA_FFI_API_TIMER_C_API_H_
    #include "xla/ffi/api/c_api.h"
    #define XLA_FFI_Extension_Timer 130
    #define XLA_FFI_Extension_Timer_MajorVersion 0
    #define XLA_FFI_Extension_Timer_MinorVersion 1
    typedef struct XLA_FFI_Timer XLA_FFI_Timer;
    typedef struct XLA_FFI_Timer_Extension {
      XLA_FFI_Extension base;
      XLA_FFI_Error* (*start)(const struct XLA_FFI_Timer_Extension* self, double seconds,
                              XLA_FFI_Timer** timer);
      void (*stop)(XLA_FFI_Timer* timer, void (*done)(void* data, int32_t code), void* data);
    } XLA_FFI_Timer_Extension;
    XLA_FFI_Error* XLA_FFI_Timer_Read(const XLA_FFI_Timer* timer, int64_t* nanoseconds);
    #endif
"#;

/// An include folder of a made-up release, from the newest wheel's headers.
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
    let Some(outcomes) = outcomes(name, "0.13.0", include.path(), out.path()) else {
        return;
    };
    let [main, record, collectives, timer] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert!(
        matches!(record, Outcome::Known { .. }) && matches!(collectives, Outcome::Known { .. })
    );
    let proposed = |outcome: &Outcome| match outcome {
        Outcome::Proposed { text, file } => {
            let abi = snapshot::parse("proposed", &std::fs::read_to_string(file).unwrap());
            (text.clone(), abi.unwrap())
        }
        Outcome::Known { .. } => panic!("{outcome:?}"),
    };
    let (text, abi) = proposed(main);
    // What is proposed: the old layouts, and what was edited, where it has to stand.
    let newest = Edition::of_revision(Revision::NEWEST).declared();
    let clock = "fn(*mut XLA_FFI_InvokeContext, i32, *mut i64) -> *mut XLA_FFI_Error";
    let slot = abi.structs["XLA_FFI_Api"]
        .field("XLA_FFI_Clock_Get")
        .unwrap();
    assert_eq!(
        (slot.offset, slot.ty.as_str()),
        (newest.structs["XLA_FFI_Api"].size, clock)
    );
    assert_eq!(abi.functions["XLA_FFI_Clock_Get"], clock);
    assert_eq!(
        abi.enums["XLA_FFI_ExecutionStage"].values["XLA_FFI_ExecutionStage_FINALIZE"],
        5
    );
    let args = &abi.structs["XLA_FFI_DeviceOrdinal_Get_Args"];
    assert_eq!(
        (
            args.size,
            args.struct_size,
            args.field("local_id").unwrap().offset
        ),
        (40, Some(40), 32)
    );
    let changed = |name: &&String| abi.structs[*name] != newest.structs[*name];
    let changed: Vec<&String> = newest.structs.keys().filter(changed).collect();
    assert_eq!(changed, ["XLA_FFI_Api", "XLA_FFI_DeviceOrdinal_Get_Args"]);
    // The difference, and whom it hurts.
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let after = |what: &str| {
        let at = lines.iter().position(|line| line.starts_with(what));
        let at = at.unwrap_or_else(|| panic!("{what} is not told: {text}"));
        [lines[at + 1], lines[at + 2]]
    };
    for (what, old_on_new, new_on_old) in [
        (
            "added at end: XLA_FFI_Api.XLA_FFI_Clock_Get",
            "harmless",
            "breaks",
        ),
        (
            "added at end: XLA_FFI_DeviceOrdinal_Get_Args.local_id",
            "lacks",
            "harmless",
        ),
        (
            "enum value added: XLA_FFI_ExecutionStage.XLA_FFI_ExecutionStage_FINALIZE",
            "lacks",
            "lacks",
        ),
        ("constant changed: XLA_FFI_API_MINOR", "harmless", "lacks"),
    ] {
        let [old, new] = after(what);
        assert!(
            old.starts_with(&format!("built before, loaded on it: {old_on_new}")),
            "{what}: {old}"
        );
        assert!(
            new.starts_with(&format!("built on it, loaded before: {new_on_old}")),
            "{what}: {new}"
        );
    }
    let own = text
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    assert_eq!(
        own.filter(|line| !line.ends_with("(follows)")).count(),
        4,
        "{text}"
    );
    assert!(text.ends_with("it is a new revision, r11\n"), "{text}");
    // The extension, its functions with plain parameters.
    let (text, abi) = proposed(timer);
    assert_eq!(abi.header(), Header::Other);
    assert_eq!(
        abi.structs.keys().collect::<Vec<_>>(),
        ["XLA_FFI_Timer_Extension"]
    );
    let stop = abi.structs["XLA_FFI_Timer_Extension"]
        .field("stop")
        .unwrap();
    assert_eq!(
        stop.ty,
        "fn(*mut XLA_FFI_Timer, fn(*mut void, i32), *mut void)"
    );
    for declared in [
        "void (*stop)(XLA_FFI_Timer*, void (*)(void*, int32_t), void*);",
        "XLA_FFI_Error* XLA_FFI_Timer_Read(const XLA_FFI_Timer*, int64_t*);",
    ] {
        assert!(text.contains(declared), "{text}");
    }
    // Its next version, with another parameter: nobody may call it as before.
    let edited = TIMER.replace("double seconds,", "double seconds, int32_t flags,");
    std::fs::write(include.path().join("xla/ffi/api/timer_c_api.h"), edited).unwrap();
    let next = self::outcomes(name, "0.13.1", include.path(), out.path()).unwrap();
    let changes = xla_ffi_abi::diff::changes(&abi, &proposed(&next[3]).1);
    let [change] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(change.path(), "XLA_FFI_Timer_Extension.start");
    assert_eq!(
        (change.class, change.effect.harm()),
        (Class::Retyped, Harm::Breaks)
    );
    // And one with a function more: who does not call it works.
    let edited = TIMER.replace(
        "} XLA_FFI_Timer_Extension;",
        "int64_t (*now)(void); } XLA_FFI_Timer_Extension;",
    );
    std::fs::write(include.path().join("xla/ffi/api/timer_c_api.h"), edited).unwrap();
    let next = self::outcomes(name, "0.13.2", include.path(), out.path()).unwrap();
    let changes = xla_ffi_abi::diff::changes(&abi, &proposed(&next[3]).1);
    let effect = &changes[0].effect;
    assert_eq!(
        (changes[0].class, changes[0].path().as_str()),
        (Class::AddedAtEnd, "XLA_FFI_Timer_Extension.now")
    );
    assert_eq!(
        (effect.old_on_new.harm, effect.new_on_old.harm),
        (Harm::None, Harm::Breaks)
    );
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

#[test]
fn every_edition_has_a_witness() {
    let versions = witnesses(&JAXLIBS);
    assert!(versions.starts_with(&JAXLIBS));
    for edition in EDITIONS {
        assert!(
            versions
                .iter()
                .any(|v| Edition::of_jaxlib(edition.header, v) == Some(edition)),
            "{}",
            edition.name()
        );
    }
}
