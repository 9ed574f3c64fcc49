//! Tests the verdicts on handlers per jaxlib, which depend on the handlers' answers and state.

use crate::{FIXED, Report, build, doctor};
use std::path::PathBuf;
use xla_ffi_testing::skip;

#[test]
fn versions_decide_where_it_loads() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3"];
    let Some(library) = build(folder.path(), "fixed", "gcc", FIXED, &flags) else {
        return skip("versions_decide_where_it_loads", "gcc is not there");
    };
    let arguments = ["--handler", "fixed", "--handler", "negotiating"];
    let told = doctor(&library, &arguments);
    let both = doctor(
        &library,
        &["--handler", "execute=negotiating,instantiate=fixed"],
    );
    let stages = &both.value["handlers"][0]["stages"];
    assert_eq!(stages["instantiate"], "fixed", "{stages}");
    assert_eq!(both.loads("0.12.0", "negotiating"), "yes");
    assert_eq!(both.loads("0.8.1", "negotiating"), "no");
    for (version, fixed) in [
        ("0.4.31", "yes"),
        ("0.4.33", "no"),
        ("0.8.0", "no"),
        ("0.8.1", "no"),
        ("0.9.1", "yes"),
        ("0.12.0", "yes"),
    ] {
        assert_eq!(told.loads(version, "fixed"), fixed, "{version}");
        assert_eq!(told.loads(version, "negotiating"), "yes", "{version}");
    }
    assert_eq!(told.value["jaxlibs"].as_array().unwrap().len(), 24);
    assert!(told.risks("0.12.0", "negotiating").is_empty());
    assert_eq!(told.code, Some(1));
    assert!(told.finding("API version 0.3 on every runtime").is_some());
    // The verdict is yes if the jaxlib accepts the handler, and no if it refuses the handler.
    let one = |version| doctor(&library, &["--handler", "fixed", "--jaxlib", version]);
    assert_eq!(one("0.10.2").code, Some(0));
    assert_eq!(one("0.8.1").code, Some(1));
    // With `--no-run`, the library is not loaded, so the verdict is unknown.
    let still = doctor(&library, &["--handler", "fixed", "--no-run"]);
    assert_eq!(still.loads("0.12.0", "fixed"), "unknown");
    assert_eq!(still.code, Some(0));
}

#[test]
fn an_answer_past_the_metadata_is_a_proved_risk() {
    // Handlers with the headers of jaxlib 0.8.0 answer with version 0.1 and also write the type of their state, on
    // every runtime.
    let source = FIXED.replace(
        "extension->metadata->traits = 0;",
        "extension->metadata->traits = 0; extension->metadata->state_type_id.type_id = 0;",
    );
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "past", "gcc", &source, &["-DMINOR=1"]) else {
        return skip(
            "an_answer_past_the_metadata_is_a_proved_risk",
            "gcc is not there",
        );
    };
    let told = doctor(&library, &["--handler", "fixed"]);
    // The runtime accepts the handler, but the effect of the overwritten memory is unknown. In all measurements, the
    // process survived (tests/jax/verdicts.txt), so failure is not proved.
    assert_eq!(told.loads("0.5.1", "fixed"), "unknown");
    assert!(told.risks("0.5.1", "fixed").contains(&(
        "proved".to_owned(),
        "overwrites the runtime's memory in the metadata call".to_owned()
    )));
    assert_eq!(told.loads("0.8.0", "fixed"), "yes");
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let strict = doctor(&library, &["--handler", "fixed", "--fail-on", "risk"]);
    assert_eq!(strict.code, Some(1));
    assert!(strict.stderr.contains("XF207"), "{}", strict.stderr);
}

const UPSTREAM: &str = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct S { int x; static ffi::TypeId id; };
ffi::TypeId S::id = {};
static ffi::Error Run(S* s, ffi::ResultBuffer<ffi::F32> y) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    run, Run, ffi::Ffi::Bind().Ctx<ffi::State<S>>().Ret<ffi::Buffer<ffi::F32>>());
"#;

#[test]
fn state_of_upstreams_headers_is_proved() {
    let Some(headers) = std::env::var_os("XLA_FFI_JAXLIB_HEADERS").map(PathBuf::from) else {
        return skip(
            "state_of_upstreams_headers_is_proved",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    let include = format!("-isystem{}", headers.join("0.5.1").display());
    for (name, flags) in [("plain", &["-g"][..]), ("stripped", &["-O2", "-s"])] {
        let flags = [&["-std=c++17", include.as_str()], flags].concat();
        let Some(library) = build(folder.path(), name, "g++", UPSTREAM, &flags) else {
            return skip("state_of_upstreams_headers_is_proved", "g++ is not there");
        };
        let told = doctor(&library, &["--handler", "run"]);
        assert_eq!(told.loads("0.12.0", "run"), "yes");
        let risks = told.risks("0.12.0", "run");
        assert!(
            risks.contains(&(
                "proved".to_owned(),
                "the runtime misreads its State_Set and State_Get arguments, with an error or a crash".to_owned()
            )),
            "{risks:?}"
        );
        let own: Vec<_> = told.risks("0.6.2", "run");
        assert_eq!(own.len(), 1, "{own:?}");
        assert!(own[0].1.contains("is registered first"), "{own:?}");
        assert_eq!(told.code, Some(1));
        if name == "plain" {
            assert_eq!(told.value["compiled_with"], serde_json::json!(["r4"]));
        }
    }
}

#[test]
fn ranges_are_judged_release_by_release() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "ranges", "gcc", FIXED, &["-DMINOR=3"]) else {
        return skip("ranges_are_judged_release_by_release", "gcc is not there");
    };
    let told = |ranges: &[&str]| {
        let mut arguments = vec!["--handler", "fixed", "--strict"];
        for range in ranges {
            arguments.extend(["--jaxlib", range]);
        }
        doctor(&library, &arguments)
    };
    let jaxlibs = |told: &Report| told.value["jaxlibs"].as_array().unwrap().len();
    let good = told(&["0.9.1.."]);
    assert_eq!(
        (good.code, jaxlibs(&good)),
        (Some(0), 10),
        "{}",
        good.stderr
    );
    let bad = told(&["..0.9.2"]);
    assert_eq!((bad.code, jaxlibs(&bad)), (Some(1), 24), "{}", bad.stderr);
    let both = told(&["0.9.1..0.9.2", "0.12.0"]);
    assert_eq!((both.code, jaxlibs(&both)), (Some(0), 3), "{}", both.stderr);
}
