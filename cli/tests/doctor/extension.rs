//! Tests the doctor with Python extension modules. The doctor imports the modules in an interpreter, and makes the
//! metadata calls of the handlers in their capsules.

use crate::{FIXED, Report, build, doctor};
use serde_json::Value;
use std::path::{Path, PathBuf};
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::Wheel;

/// Declarations of Python's C API that are the same in all versions of Python, so that the tests need no Python
/// headers.
const PYTHON: &str = r#"
typedef struct { long base[5]; const char* name; void* doc; long size; void* rest[5]; } Definition;
typedef struct { const char* name; void* (*function)(void*, void*); int flags; const char* doc; } Method;
void* PyModule_Create2(Definition*, int);
int PyModule_AddObject(void*, const char*, void*);
void* PyCapsule_New(void*, const char*, void*);
void* PyDict_New(void);
int PyDict_SetItemString(void*, const char*, void*);
void PyErr_SetString(void*, const char*);
extern void* PyExc_ValueError;
static void* capsule(void* function) { return PyCapsule_New(function, "xla._CUSTOM_CALL_TARGET", 0); }
"#;

const MODULE: &str = r#"
XLA_FFI_Error* silent(XLA_FFI_CallFrame* frame) { return 0; }
XLA_FFI_Error* original(void* out) { __builtin_trap(); }
static void* get_fixed(void* module, void* none) { return capsule(fixed); }
static void* registrations(void* module, void* none) {
  void *all = PyDict_New(), *stages = PyDict_New();
  PyDict_SetItemString(stages, "execute", capsule(negotiating));
  PyDict_SetItemString(stages, "instantiate", capsule(fixed));
  PyDict_SetItemString(all, "both", stages);
  PyDict_SetItemString(all, "one", capsule(negotiating));
  return all;
}
static void* crash(void* module, void* none) { __builtin_trap(); }
static void* fail(void* module, void* none) { PyErr_SetString(PyExc_ValueError, "no"); return 0; }
static Method methods[] = {{"get_fixed", get_fixed, 4, 0}, {"registrations", registrations, 4, 0},
                           {"crash", crash, 4, 0}, {"fail", fail, 4, 0}, {0, 0, 0, 0}};
static Definition definition = {{1}, "ext", 0, -1, {methods}};
void* PyInit_libext(void) {
  void* module = PyModule_Create2(&definition, 1013);
  PyModule_AddObject(module, "attribute", capsule(negotiating));
  PyModule_AddObject(module, "silent", capsule(silent));
  PyModule_AddObject(module, "original", capsule(original));
  PyModule_AddObject(module, "data", capsule(&definition));
  return module;
}
"#;

/// Builds an extension module with handlers that always answer version 0.`minor`. Without a compiler, reports a skip
/// and returns `None`.
fn module(folder: &Path, minor: u8, test: &str) -> Option<PathBuf> {
    let source = [FIXED, PYTHON, MODULE].concat();
    let minor = format!("-DMINOR={minor}");
    let built = build(folder, "ext", "gcc", &source, &[&minor]);
    if built.is_none() {
        skip(test, "gcc is not there");
    }
    built
}

/// Returns the numbers of all findings in the doctor's report.
fn ids(told: &Report) -> Vec<&str> {
    let findings = told.value["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect()
}

#[test]
fn the_capsules_of_a_module_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = module(folder.path(), 3, "the_capsules_of_a_module_are_asked") else {
        return;
    };
    let told = doctor(&library, &["--jaxlib", "0.8.1", "--jaxlib", "0.12.0"]);
    let handlers = told.value["handlers"].as_array().unwrap();
    let stages = |name: &str| {
        let mut all = handlers.iter();
        let found = all.find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {:#}", told.value))["stages"].clone()
    };
    assert_eq!(stages("attribute")["execute"], "attribute");
    assert_eq!(stages("get_fixed")["execute"], "get_fixed()");
    assert_eq!(stages("one")["execute"], "registrations()['one']");
    assert_eq!(
        stages("both")["instantiate"],
        "registrations()['both']['instantiate']"
    );
    assert_eq!(handlers.len(), 6, "{handlers:#?}");
    for (name, old, new) in [
        ("attribute", "yes", "yes"),
        ("one", "yes", "yes"),
        ("get_fixed", "no", "yes"),
        ("both", "no", "yes"),
        // A capsule that does not answer may contain a target of the original custom calls.
        ("silent", "unknown", "unknown"),
        ("original", "unknown", "unknown"),
    ] {
        let verdicts = (told.loads("0.8.1", name), told.loads("0.12.0", name));
        assert_eq!(verdicts, (old, new), "{name}");
    }
    let failing = told.whole["gate"]["failing"].as_array().unwrap();
    let keys: Vec<&Value> = failing.iter().map(|one| &one["key"]).collect();
    assert_eq!(keys, ["XF202 libext.so/get_fixed", "XF202 libext.so/both"]);
    for id in ["XF002", "XF105", "XF106", "XF112", "XF113"] {
        assert!(!ids(&told).contains(&id), "{id}: {:#}", told.value);
    }
    // With `--no-run`, the doctor must not import the module.
    let told = doctor(&library, &["--no-run"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(ids(&told).contains(&"XF001") && !ids(&told).contains(&"XF106"));
}

#[test]
fn a_module_without_an_interpreter_or_a_package_is_not_judged() {
    let test = "a_module_without_an_interpreter_or_a_package_is_not_judged";
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = module(folder.path(), 1, test) else {
        return;
    };
    let told = doctor(&library, &["--python", "/nowhere/python3"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(ids(&told).contains(&"XF001"), "{:#}", told.value);
    assert_eq!(
        doctor(&library, &["--python", "/nowhere/python3", "--strict"]).code,
        Some(1)
    );
    let import = "void* PyImport_ImportModule(const char*);
        void* PyInit_libneeds(void) { return PyImport_ImportModule(\"no_such_package\"); }";
    let library = build(folder.path(), "needs", "gcc", import, &[]).unwrap();
    let told = doctor(&library, &[]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let of_package = told.value["findings"].to_string();
    assert!(ids(&told).contains(&"XF001") && of_package.contains("no_such_package"));
    let site = folder.path().join("site/no_such_package.py");
    std::fs::create_dir_all(site.parent().unwrap()).unwrap();
    std::fs::write(&site, "").unwrap();
    let told = doctor(
        &library,
        &["--site-packages", site.parent().unwrap().to_str().unwrap()],
    );
    assert!(!ids(&told).contains(&"XF001"), "{:#}", told.value);
    // If importing the module crashes, the doctor must report that the library does not load.
    let crash = "void PyErr_Clear(void);
        void* PyInit_libcrash(void) { PyErr_Clear(); __builtin_trap(); }";
    let library = build(folder.path(), "crash", "gcc", crash, &[]).unwrap();
    doctor(&library, &[]).proved_to_fail("does not load on this machine");
}

/// Tests that the doctor imports a module of a wheel even if the wheel's package cannot be imported.
#[test]
fn a_module_in_a_wheel_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = module(folder.path(), 1, "a_module_in_a_wheel_is_asked") else {
        return;
    };
    let wheel = Wheel::named("mine-1.0-cp39-abi3-manylinux_2_34_x86_64")
        .member("mine/__init__.py", b"import no_such_package\n")
        .member("mine/libext.so", &std::fs::read(library).unwrap());
    let wheel = wheel.pack(folder.path());
    let told = doctor(
        Path::new("--wheel"),
        &[wheel.to_str().unwrap(), "--jaxlib", "0.12.0"],
    );
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(told.loads("0.12.0", "get_fixed"), "yes");
}

/// Packs a wheel with the extension module, and examines the wheel for the jaxlibs that it requires. Returns the JSON
/// output.
fn wheel(
    folder: &Path,
    library: &Path,
    tag: &str,
    member: &str,
    requires: &str,
    more: &[&str],
) -> Value {
    let metadata = format!("Metadata-Version: 2.4\nName: mine\nVersion: 1.0\n{requires}\nText.\n");
    let wheel = Wheel::named(&format!("mine-1.0-{tag}-manylinux_2_34_x86_64"))
        .member(member, &std::fs::read(library).unwrap())
        .member("mine-1.0.dist-info/METADATA", metadata.as_bytes());
    let wheel = wheel.pack(folder);
    let arguments = [&[wheel.to_str().unwrap()], more].concat();
    doctor(Path::new("--wheel"), &arguments).whole
}

fn failing(whole: &Value) -> Vec<&str> {
    let failing = whole["gate"]["failing"].as_array().unwrap();
    failing
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect()
}

#[test]
fn the_jax_that_a_wheel_requires_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = module(folder.path(), 3, "the_jax_that_a_wheel_requires_is_judged") else {
        return;
    };
    for (requires, bound) in [
        ("Requires-Dist: jax>=0.5.0\n", Some("jax>=0.9.1")),
        (
            "Requires-Dist: jaxlib (>=0.9.0,<0.10)\n",
            Some("jaxlib>=0.9.1"),
        ),
        ("Requires-Dist: jax\n", Some("jax>=0.9.1")),
        ("Requires-Dist: jax>=0.9.1\n", None),
        (
            "Requires-Dist: jax>=0.9.1; extra == 'x'\nRequires-Dist: jax~=0.10.0\n",
            None,
        ),
    ] {
        let told = wheel(
            folder.path(),
            &library,
            "py3-none",
            "mine/libext.so",
            requires,
            &[],
        );
        let expected: &[&str] = if bound.is_some() {
            &["XF406 mine.whl/wheel"]
        } else {
            &[]
        };
        assert_eq!(failing(&told), expected, "{requires}: {told:#}");
        let fixes = told["wheels"][0]["findings"].to_string();
        assert!(
            bound.is_none_or(|bound| fixes.contains(bound)),
            "{requires}: {fixes}"
        );
    }
    // If the wheel requires no jaxlib, it does not claim to support old jaxlibs, so the finding is only a risk.
    let told = wheel(
        folder.path(),
        &library,
        "py3-none",
        "mine/libext.so",
        "",
        &[],
    );
    let findings = told["wheels"][0]["findings"].as_array().unwrap();
    let found = findings.iter().find(|one| one["id"] == "XF406").unwrap();
    assert_eq!(
        (found["severity"].as_str(), failing(&told)),
        (Some("risk"), vec![])
    );
    // If the newest allowed jaxlib also refuses a handler, raising the requirement does not help, so the refusal is
    // reported.
    let told = wheel(
        folder.path(),
        &library,
        "py3-none",
        "mine/libext.so",
        "Requires-Dist: jax==0.8.1\n",
        &[],
    );
    assert!(
        failing(&told).contains(&"XF202 mine/libext.so/get_fixed"),
        "{told:#}"
    );
}

#[test]
fn the_python_tag_fits_the_modules() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = module(folder.path(), 1, "the_python_tag_fits_the_modules") else {
        return;
    };
    let of_312 = "mine/libext.cpython-312-x86_64-linux-gnu.so";
    for (tag, member, fails) in [
        ("cp38-abi3", of_312, true),
        ("cp311-cp311", of_312, true),
        ("cp312-cp312t", of_312, true),
        ("py3-none", of_312, true),
        ("cp312-cp312", of_312, false),
        ("cp311.cp312-cp311.cp312", of_312, true),
        ("cp38-abi3", "mine/libext.abi3.so", false),
        ("py3-none", "mine/jax-0.9/libext.so", false),
    ] {
        let told = wheel(folder.path(), &library, tag, member, "", &["--no-run"]);
        let found = failing(&told).contains(&"XF401 mine.whl/wheel");
        assert_eq!(found, fails, "{tag} {member}: {told:#}");
    }
}

/// Tests a Python package that loads a library before it imports the module that requires this library.
#[test]
fn a_package_may_load_what_its_module_needs() {
    let folder = tempfile::tempdir().unwrap();
    let soname = ["-Wl,-soname,libpre.so.1"];
    let Some(pre) = build(folder.path(), "pre", "gcc", "int pre;", &soname) else {
        return skip(
            "a_package_may_load_what_its_module_needs",
            "gcc is not there",
        );
    };
    let source = [FIXED, PYTHON, MODULE].concat();
    let flags = ["-DMINOR=1", "-Wl,--no-as-needed", pre.to_str().unwrap()];
    let library = build(folder.path(), "ext", "gcc", &source, &flags).unwrap();
    let wheel = |start: &str| {
        Wheel::named("mine-1.0-py3-none-manylinux_2_34_x86_64")
            .member("mine/__init__.py", start.as_bytes())
            .member("mine/libext.so", &std::fs::read(&library).unwrap())
            .pack(folder.path())
    };
    let judge = |wheel: PathBuf| {
        doctor(
            Path::new("--wheel"),
            &[wheel.to_str().unwrap(), "--jaxlib", "0.12.0"],
        )
    };
    let told = judge(wheel(&format!(
        "import ctypes\nctypes.CDLL({:?})\n",
        pre.to_str().unwrap()
    )));
    assert_eq!(
        (told.loads("0.12.0", "get_fixed"), told.code),
        ("yes", Some(0))
    );
    assert!(!ids(&told).contains(&"XF104"), "{:#}", told.value);
    let told = judge(wheel(""));
    assert_eq!(
        failing(&told.whole),
        ["XF104 mine/libext.so/library"],
        "{:#}",
        told.whole
    );
}

/// Tests that a failed import is not a proof if the interpreter lacks a package that the wheel requires.
#[test]
fn required_packages_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "void PyErr_Clear(void); void* PyInit_libext(void) { PyErr_Clear(); __builtin_trap(); }";
    let Some(library) = build(folder.path(), "ext", "gcc", source, &[]) else {
        return skip("required_packages_must_be_there", "gcc is not there");
    };
    let expected: [(&str, &[&str]); 2] = [
        ("Requires-Dist: no-such-project\n", &[]),
        ("", &["XF112 mine/libext.so/machine"]),
    ];
    for (requires, keys) in expected {
        let told = wheel(
            folder.path(),
            &library,
            "py3-none",
            "mine/libext.so",
            requires,
            &[],
        );
        assert_eq!(failing(&told), keys, "{requires}: {told:#}");
        let is_judged = told["libraries"][0]["findings"].as_array().unwrap();
        assert_eq!(
            is_judged.iter().all(|one| one["id"] != "XF001"),
            !keys.is_empty()
        );
    }
}
