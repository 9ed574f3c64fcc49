//! Tests which findings fail a run: findings about incomplete checks, known findings, and findings about several
//! libraries. Also tests the output formats for CI.

use crate::{FIXED, build, doctor, run};
use serde_json::Value;
use xla_ffi_testing::skip;

#[test]
fn nothing_is_green_that_was_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "gate", "gcc", FIXED, &["-DMINOR=1"]) else {
        return skip("nothing_is_green_that_was_not_judged", "gcc is not there");
    };
    let refused = build(folder.path(), "refused", "gcc", FIXED, &["-DMINOR=9"]).unwrap();
    let newest = ["--jaxlib", "0.12.0"];
    let handler = ["--handler", "negotiating"];
    let cases: [(_, _, &[&str], &str); 3] = [
        (&library, newest, &[], "XF002"),
        (
            &library,
            newest,
            &["--handler", "negotiating", "--no-run"],
            "XF001",
        ),
        // Runtimes of r0 make no metadata call and may load the handler, but runtimes of all other revisions refuse the
        // handler.
        (
            &refused,
            ["--jaxlib", "0.4.31"],
            &["--handler", "fixed"],
            "XF003",
        ),
    ];
    for (library, newest, arguments, id) in cases {
        let told = doctor(library, &[arguments, &newest].concat());
        assert_eq!(told.code, Some(0), "{id}: {}", told.stderr);
        assert!(
            told.stderr
                .contains(" not judged, which fails with --strict"),
            "{}",
            told.stderr
        );
        assert!(told.stderr.contains(id), "{}", told.stderr);
        let told = doctor(library, &[arguments, &newest, &["--strict"]].concat());
        assert_eq!(told.code, Some(1), "{id}");
        assert_eq!(told.whole["exit"]["kind"], "not-judged", "{id}");
        assert!(told.stderr.contains(id), "{}", told.stderr);
        // Lists cannot allow a finding about an incomplete check. In a list, a line for such a finding is an error. A
        // baseline omits the finding.
        let list = folder.path().join("list").display().to_string();
        let with = |more: &[&str]| doctor(library, &[arguments, &newest, more].concat());
        drop(std::fs::remove_file(&list));
        let told = with(&["--strict", "--write-baseline", &list]);
        assert_eq!(told.code, Some(1), "{id}: {}", told.stderr);
        let baseline = std::fs::read_to_string(&list).unwrap();
        assert!(!baseline.contains(id), "{baseline}");
        std::fs::write(&list, format!("# ours\n{id} */*: nobody knows\n")).unwrap();
        for option in ["--allow", "--baseline"] {
            let output = run(library, &[arguments, &newest, &[option, &list]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let told = format!("line 2: {id} means that something was not judged");
            assert!(
                output.status.code() == Some(1) && said.contains(&told),
                "{said}"
            );
        }
    }
    let told = doctor(&library, &[&handler[..], &newest, &["--strict"]].concat());
    assert_eq!(
        (told.code, &told.whole["exit"]["kind"]),
        (Some(0), &"ok".into()),
        "{}",
        told.stderr
    );
    let told = doctor(&library, &["--handler", "nowhere", "--strict"]);
    assert_eq!(
        (told.code, &told.whole["exit"]["kind"]),
        (Some(1), &"findings".into())
    );
}

#[test]
fn what_is_known_stays_quiet_and_what_is_new_fails() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3", "-Wl,-rpath,/nowhere/at/all"];
    let Some(library) = build(folder.path(), "known", "gcc", FIXED, &flags) else {
        return skip(
            "what_is_known_stays_quiet_and_what_is_new_fails",
            "gcc is not there",
        );
    };
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let base = [
        "--handler",
        "fixed",
        "--jaxlib",
        "0.12.0",
        "--fail-on",
        "risk",
    ];
    let told = |more: &[&str]| doctor(&library, &[&base, more].concat());
    let plain = told(&[]);
    assert_eq!(plain.code, Some(1));
    assert!(
        plain.stderr.contains("XF109") && plain.stderr.contains("XF201"),
        "{}",
        plain.stderr
    );
    let allow = file(
        "allow",
        "# ours\nXF109 libknown.so/library: the folder is there where it runs\nXF201 */fixed: upstream's\nXF104 a.so/x: gone\n",
    );
    let quiet = told(&["--allow", &allow]);
    assert_eq!(quiet.code, Some(0), "{}", quiet.stderr);
    assert!(
        quiet
            .stderr
            .contains("XF109 libknown.so/library: the folder is there"),
        "{}",
        quiet.stderr
    );
    assert!(
        quiet
            .stderr
            .contains("lists XF104 a.so/x, which was not found"),
        "{}",
        quiet.stderr
    );
    // In an allow-list, a line without a reason is an error.
    let bare = file("bare", "XF109 libknown.so/library\n");
    let refused = run(&library, &[&base[..], &["--allow", &bare]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("REASON"));
    // In an allow-list, a number that no finding has is an error.
    let strange = file(
        "strange",
        "XF109 libknown.so/library: fine\nXF910 libknown.so/library: fine\n",
    );
    for option in ["--allow", "--baseline"] {
        let refused = run(&library, &[&base[..], &[option, &strange]].concat());
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(
            words.contains("line 2") && words.contains("XF910"),
            "{words}"
        );
    }
    let baseline = folder.path().join("baseline").display().to_string();
    let written = told(&["--write-baseline", &baseline]);
    assert_eq!(
        (written.code, &written.whole["exit"]),
        (Some(0), &serde_json::json!({ "code": 0, "kind": "ok" }))
    );
    assert_eq!(told(&["--baseline", &baseline]).code, Some(0));
    let worse = doctor(
        &library,
        &[
            "--handler",
            "fixed",
            "--jaxlib",
            "0.8.1",
            "--fail-on",
            "risk",
            "--baseline",
            &baseline,
        ],
    );
    assert_eq!(worse.code, Some(1));
    assert!(
        worse.stderr.contains("XF202") && !worse.stderr.contains("XF109 libknown.so, "),
        "{}",
        worse.stderr
    );
}

#[test]
fn several_libraries_have_handlers_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(one) = build(folder.path(), "one", "gcc", FIXED, &["-DMINOR=3"]) else {
        return skip(
            "several_libraries_have_handlers_of_their_own",
            "gcc is not there",
        );
    };
    let other = FIXED.replace("negotiating(", "mine(");
    let two = build(folder.path(), "two", "gcc", &other, &["-DMINOR=1"]).unwrap();
    let two = two.to_str().unwrap();
    let told = doctor(
        &one,
        &[
            two,
            "--handler",
            "negotiating",
            "--handler",
            "mine",
            "--strict",
            "--jaxlib",
            "0.8.1",
        ],
    );
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let libraries = told.whole["libraries"].as_array().unwrap();
    assert_eq!(libraries.len(), 2);
    assert_eq!(libraries[0]["handlers"][0]["name"], "negotiating");
    assert_eq!(libraries[1]["handlers"][0]["name"], "mine");
    // A symbol on the command line that no library exports must be reported once, not once per library.
    for wanted in [["--handler", "nowhere"], ["--type", "S=nowhere"]] {
        let told = doctor(
            &one,
            &[&[two, "--handler", "negotiating"], &wanted[..]].concat(),
        );
        let words = "no library exports the symbol 'nowhere'";
        assert!(
            told.code == Some(1) && told.finding(words).is_some(),
            "{}",
            told.stderr
        );
        assert_eq!(told.stderr.matches(words).count(), 1, "{}", told.stderr);
    }
}

#[test]
fn ci_reads_findings_in_its_own_forms() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3", "-Wl,-rpath,/nowhere/at/all"];
    let Some(library) = build(folder.path(), "forms", "gcc", FIXED, &flags) else {
        return skip("ci_reads_findings_in_its_own_forms", "gcc is not there");
    };
    let arguments = ["--handler", "fixed", "--jaxlib", "0.8.1"];
    let output = run(&library, &[&arguments[..], &["--format", "sarif"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run_of = &sarif["runs"][0];
    let rules = run_of["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run_of["results"].as_array().unwrap();
    for result in results {
        let id = &result["ruleId"];
        assert!(rules.iter().any(|rule| rule["id"] == *id), "{id}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert!(place.as_str().unwrap().ends_with("libforms.so"));
    }
    let level = |id: &str| {
        &results
            .iter()
            .find(|result| result["ruleId"] == id)
            .unwrap()["level"]
    };
    assert_eq!(level("XF202"), "error");
    assert_eq!(level("XF109"), "warning");
    let output = run(
        &library,
        &[&arguments[..], &["--format", "github"]].concat(),
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().all(|line| line.starts_with("::")), "{text}");
    assert!(
        text.contains("::error file=") && text.contains("title=XF202::"),
        "{text}"
    );
    // Errors about unreadable files are also reported as JSON.
    let output = run(&folder.path().join("nowhere.so"), &["--format=json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(value["exit"]["kind"], "bad-input");
    assert!(
        value["error"].as_str().unwrap().contains("cannot read"),
        "{value}"
    );
    let told = |form: &str| {
        let output = run(&folder.path().join("nowhere.so"), &["--format", form]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let sarif: Value = serde_json::from_str(&told("sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "XF331");
    let github = told("github");
    assert!(
        github.contains("nowhere.so,title=XF331::cannot read"),
        "{github}"
    );
}
