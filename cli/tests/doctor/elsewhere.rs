//! Tests libraries whose required libraries are missing on this machine but exist on the user's machine. Findings about
//! such libraries are not proved.

use crate::{FIXED, Report, build, doctor};
use serde_json::Value;
use std::path::{Path, PathBuf};
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::Wheel;

/// Builds libraries with the names `names` in the folder `pre`, and a library with handlers that requires them. Returns
/// the library with handlers.
fn needs(folder: &Path, names: &[&str], test: &str) -> Option<PathBuf> {
    let pre = folder.join("pre");
    std::fs::create_dir_all(&pre).unwrap();
    let mut flags = vec!["-DMINOR=1".to_owned(), "-Wl,--no-as-needed".to_owned()];
    for name in names {
        let soname = format!("-Wl,-soname,{name}");
        let Some(built) = build(folder, "stand_in", "gcc", "int stand_in;", &[&soname]) else {
            skip(test, "gcc is not there");
            return None;
        };
        let path = pre.join(name);
        std::fs::rename(built, &path).unwrap();
        flags.push(path.display().to_string());
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    build(folder, "user", "gcc", FIXED, &flags)
}

fn findings(told: &Report) -> &Vec<Value> {
    told.value["findings"].as_array().unwrap()
}

fn has(told: &Report, id: &str, severity: &str) -> bool {
    findings(told)
        .iter()
        .any(|one| one["id"] == id && one["severity"] == severity)
}

fn failing(told: &Report) -> Vec<&str> {
    let failing = told.whole["gate"]["failing"].as_array().unwrap();
    failing
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect()
}

#[test]
fn a_missing_runtime_of_gpus_proves_nothing() {
    let test = "a_missing_runtime_of_gpus_proves_nothing";
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = needs(folder.path(), &["libcudart.so.99"], test) else {
        return;
    };
    let arguments = ["--handler", "negotiating", "--jaxlib", "0.12.0"];
    for more in [&["--no-run"][..], &[]] {
        let told = doctor(&library, &[&arguments[..], more].concat());
        assert_eq!(told.code, Some(0), "{more:?}: {}", told.stderr);
        assert!(
            has(&told, "XF104", "note") && has(&told, "XF001", "note"),
            "{:#}",
            told.value
        );
        assert_eq!(told.loads("0.12.0", "negotiating"), "unknown");
        assert_eq!(
            findings(&told)
                .iter()
                .filter(|one| one["id"] == "XF104")
                .count(),
            1
        );
    }
    assert_eq!(
        doctor(&library, &[&arguments[..], &["--strict"]].concat()).code,
        Some(1)
    );
}

#[test]
fn a_library_that_the_process_has_is_provided() {
    let test = "a_library_that_the_process_has_is_provided";
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = needs(folder.path(), &["libpre.so.1"], test) else {
        return;
    };
    let arguments = ["--handler", "negotiating", "--jaxlib", "0.12.0"];
    // A missing library must be reported once, without findings that follow from it.
    let told = doctor(&library, &arguments);
    assert_eq!(
        failing(&told),
        ["XF104 libuser.so/library"],
        "{:#}",
        told.value
    );
    assert!(!has(&told, "XF112", "fails") && !has(&told, "XF105", "risk"));
    assert!(!has(&told, "XF001", "note"));
    let pre = folder.path().join("pre/libpre.so.1").display().to_string();
    let site = folder.path().join("site");
    let nested = site.join("nvidia/pre/lib");
    std::fs::create_dir_all(&nested).unwrap();
    std::fs::copy(&pre, nested.join("libpre.so.1")).unwrap();
    for more in [
        ["--preload", &pre],
        ["--site-packages", site.to_str().unwrap()],
    ] {
        let told = doctor(&library, &[&arguments[..], &more].concat());
        assert_eq!(
            told.loads("0.12.0", "negotiating"),
            "yes",
            "{more:?}: {:#}",
            told.value
        );
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert!(!has(&told, "XF104", "fails"));
    }
}

#[test]
fn runtimes_of_gpus_never_belong_into_a_wheel() {
    let test = "runtimes_of_gpus_never_belong_into_a_wheel";
    let folder = tempfile::tempdir().unwrap();
    let names = "cusparse.so.12 nvJitLink.so.12 curand.so.10 cupti.so.12 cudss.so.0 cutensor.so.2 nvshmem_host.so.3 \
                 nvToolsExt.so.1 amdhip64.so.7 hsa-runtime64.so.1 rocblas.so.5 hipblas.so.3 rocsolver.so.0 \
                 hipsparse.so.4 rccl.so.1 MIOpen.so.1";
    let names: Vec<String> = names
        .split_whitespace()
        .map(|name| format!("lib{name}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(library) = needs(folder.path(), &names, test) else {
        return;
    };
    let wheel = |requires: &str| {
        let metadata = format!("Metadata-Version: 2.4\nName: mine\nVersion: 1.0\n{requires}\n");
        let wheel = Wheel::named("mine-1.0-py3-none-manylinux_2_34_x86_64")
            .member("mine/libuser.so", &std::fs::read(&library).unwrap())
            .member("mine-1.0.dist-info/METADATA", metadata.as_bytes())
            .pack(folder.path());
        doctor(
            Path::new("--wheel"),
            &[wheel.to_str().unwrap(), "--jaxlib", "0.12.0"],
        )
    };
    let told = wheel("");
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let all = told.whole["wheels"][0]["findings"].as_array().unwrap();
    let missing: Vec<&Value> = all.iter().filter(|one| one["id"] == "XF104").collect();
    assert_eq!(missing.len(), names.len(), "{missing:#?}");
    for (one, name) in missing.iter().zip(&names) {
        let exclude = format!("--exclude '{}.so*'", name.split(".so").next().unwrap());
        assert!(
            missing
                .iter()
                .any(|one| one["fix"].to_string().contains(&exclude)),
            "{name}"
        );
        assert_eq!(one["severity"], "risk");
    }
    assert!(!has(&told, "XF104", "note"), "{:#}", told.value);
    let told = wheel("Requires-Dist: jax[cuda12]\n");
    assert!(
        told.whole["wheels"][0]["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["id"] != "XF104")
    );
}

#[test]
fn a_required_package_provides_its_library() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = needs(
        folder.path(),
        &["libmkl_rt.so.3"],
        "a_required_package_provides_its_library",
    ) else {
        return;
    };
    for (requires, fails) in [("mkl>=2024", false), ("numpy", true)] {
        let metadata = format!(
            "Metadata-Version: 2.4\nName: mine\nVersion: 1.0\nRequires-Dist: {requires}\n\n"
        );
        let wheel = Wheel::named("mine-1.0-py3-none-manylinux_2_34_x86_64")
            .member("mine/libuser.so", &std::fs::read(&library).unwrap())
            .member("mine-1.0.dist-info/METADATA", metadata.as_bytes())
            .pack(folder.path());
        let told = doctor(
            Path::new("--wheel"),
            &[wheel.to_str().unwrap(), "--jaxlib", "0.12.0"],
        );
        let expected: &[&str] = if fails {
            &["XF104 mine/libuser.so/library"]
        } else {
            &[]
        };
        assert_eq!(failing(&told), expected, "{requires}: {:#}", told.whole);
        assert_eq!(has(&told, "XF104", "note"), !fails, "{requires}");
    }
}

/// Tests that some findings are not reported: shared names of the C++ runtime, and requirements that the wheel's tag
/// already states. The most severe finding must be first.
#[test]
fn findings_are_few_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <vector>\n#include <memory>\n#include <string>
        std::string* keep(int n) { static std::vector<std::shared_ptr<std::string>> all;
          all.push_back(std::make_shared<std::string>(n, 'x')); return all.back().get(); }
        extern \"C\" int nobody_has_this(); extern \"C\" int use() { return nobody_has_this(); }";
    let flags = ["-O0", "-Wl,-z,execstack"];
    let Some(library) = build(folder.path(), "mine", "g++", source, &flags) else {
        return skip("findings_are_few_and_in_order", "g++ is not there");
    };
    let told = doctor(&library, &[]);
    assert!(
        !told.value.to_string().contains("STB_GNU_UNIQUE"),
        "{:#}",
        told.value
    );
    assert!(has(&told, "XF108", "risk"));
    let order: Vec<_> = findings(&told)
        .iter()
        .map(|one| {
            ["fails", "risk", "note"]
                .iter()
                .position(|known| one["severity"] == *known)
        })
        .collect();
    assert!(
        order.is_sorted() && order.first() == Some(&Some(0)),
        "{order:?}"
    );
    let bytes = std::fs::read(&library).unwrap();
    let wheel = Wheel::named("mine-1.0-py3-none-manylinux_2_39_x86_64")
        .member("mine/a/libmine.so", &bytes)
        .member("mine/b/libmine.so", &bytes)
        .pack(folder.path());
    let wheel = wheel.to_str().unwrap();
    let told = doctor(Path::new("--wheel"), &[wheel]);
    assert!(
        !has(&told, "XF107", "note")
            && !has(&told, "XF107", "risk")
            && !has(&told, "XF108", "risk")
    );
    for member in ["mine/a/libmine.so", "mine/b/libmine.so"] {
        assert!(
            failing(&told).contains(&format!("XF105 {member}/machine").as_str()),
            "{:?}",
            failing(&told)
        );
    }
    let output = crate::run(Path::new("--wheel"), &[wheel, "--format=sarif"]);
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &sarif["runs"][0];
    let levels: Vec<_> = run["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            ["error", "warning", "note"]
                .iter()
                .position(|known| one["level"] == *known)
        })
        .collect();
    assert!(levels.is_sorted() && levels.len() > 3, "{levels:?}");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(
        rules
            .iter()
            .all(|rule| rule["fullDescription"]["text"].is_string())
    );
}
