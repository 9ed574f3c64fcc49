//! Tests `xla-ffi run --replay` with recordings that the tests write. `tests/jax/record.py` tests recordings of JAX.

mod recorded;

use recorded::{Recorded, library};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns an empty folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("replay")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("calls")).unwrap();
    folder
}

/// Replays the recordings in the folder `calls`. `library` is relative to `folder`.
fn replay(folder: &Path, library: &str, rest: &[&str]) -> Output {
    replay_of(folder, library, "calls", rest)
}

fn replay_of(folder: &Path, library: &str, calls: &str, rest: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["run", library, "--replay", calls])
        .args(rest)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[track_caller]
fn says(code: i32, done: &Output, wanted: &[&str]) {
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(done.status.code(), Some(code), "{said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[track_caller]
fn all_equal(done: &Output, count: usize) {
    let all = format!("{count} calls: {count} equal, 0 differ, 0 not compared\n");
    says(0, done, &[&all]);
}

/// Tests that executions have thread pools of the recorded size. The instantiate stage, whose state they use, has no
/// thread pool.
#[test]
fn calls_have_the_threads_of_the_recorded_host() {
    let test = "replay.calls_have_the_threads_of_the_recorded_host";
    let folder = folder("threads");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let stages = json!({"execute": "with_state", "instantiate": "leaves_state"});
    let state = |number, stage, threads: Option<i64>| Recorded {
        stage,
        stages: stages.clone(),
        threads,
        instance: threads.map(|_| 1),
        ..Recorded::of(
            number,
            "with_state",
            &library,
            threads.map_or(0, |threads| threads as i32),
        )
    };
    state(1, "instantiate", None).write(&folder);
    // The handler must receive the recorded size of the pool, even if the size is larger than any real pool.
    for (number, threads) in [(2, 5), (3, 7), (4, 3000)] {
        state(number, "execute", Some(threads)).write(&folder);
    }
    let size = Recorded {
        threads: Some(3),
        ..Recorded::of(5, "size", &library, 3)
    };
    size.write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 5);
    says(
        1,
        &replay(&folder, file, &["--threads", "5"]),
        &[
            "call 2, with_state (execute): equal",
            "expected 7, got 5",
            "expected 3, got 5",
        ],
    );
}

#[test]
fn a_host_without_a_pool_has_none() {
    let test = "replay.a_host_without_a_pool_has_none";
    let folder = folder("no_pool");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let of = |number, threads, revision| Recorded {
        threads,
        revision,
        ..Recorded::of(number, "size", &library, -1)
    };
    of(1, None, 10).write(&folder);
    // Hosts of revision r2 have no function that returns the pool's size.
    of(2, None, 2).write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 2);
    says(
        1,
        &replay(&folder, file, &["--threads", "4"]),
        &["expected -1, got 4"],
    );
    of(1, Some(2), 10).write(&folder);
    says(1, &replay(&folder, file, &[]), &["expected -1, got 2"]);
    all_equal(&replay(&folder, file, &["--threads", "0"]), 2);
}

#[test]
fn handlers_of_one_name_have_their_own_symbols() {
    let test = "replay.handlers_of_one_name_have_their_own_symbols";
    let folder = folder("symbols");
    let Some(library) = library(test, &folder, -1) else {
        return;
    };
    for (number, symbol, told) in [(1, "up", 1), (2, "down", -1), (3, "up", 1)] {
        let recorded = Recorded {
            stages: json!({ "execute": symbol }),
            ..Recorded::of(number, "step", &library, told)
        };
        recorded.write(&folder);
    }
    all_equal(&replay(&folder, library.to_str().unwrap(), &[]), 3);
}

#[test]
fn libraries_of_one_file_name_are_told_apart() {
    let test = "replay.libraries_of_one_file_name_are_told_apart";
    let folder = folder("names");
    let other = folder.join("other");
    let third = folder.join("third");
    for folder in [&other, &third] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let Some(first) = library(test, &folder, 1) else {
        return;
    };
    let second = library(test, &other, 2).unwrap();
    Recorded::of(1, "down", &first, 1).write(&folder);
    Recorded::of(2, "down", &second, 2).write(&folder);
    // The command line may name the same library by different paths.
    for path in ["libreplayed.so", "./other/../libreplayed.so"] {
        all_equal(&replay(&folder, path, &[]), 1);
    }
    all_equal(&replay(&folder, second.to_str().unwrap(), &[]), 1);
    let copy = third.join(first.file_name().unwrap());
    std::fs::copy(&first, &copy).unwrap();
    says(
        1,
        &replay(&folder, copy.to_str().unwrap(), &[]),
        &[first.to_str().unwrap(), second.to_str().unwrap()],
    );
    // If the recording contains one library, a library with any file name can replay the calls.
    Recorded::of(2, "down", &first, 1).write(&folder);
    all_equal(&replay(&folder, copy.to_str().unwrap(), &[]), 2);
}

#[test]
fn the_time_limit_is_of_each_call() {
    let test = "replay.the_time_limit_is_of_each_call";
    let folder = folder("late");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    Recorded::of(1, "late", &library, 0).write(&folder);
    Recorded::of(2, "up", &library, 1).write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 2);
    says(
        1,
        &replay(&folder, file, &["--time-limit", "1"]),
        &["call 1, late (execute) did not return within the time limit of 1s and was stopped"],
    );
}

/// Tests that a replay runs the prepare or initialize stage only if the stage was recorded. XLA on the CPU does not run
/// these stages.
#[test]
fn stages_that_the_recorded_host_did_not_run_are_not_run() {
    let test = "replay.stages_that_the_recorded_host_did_not_run_are_not_run";
    let folder = folder("stages");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let call = |number, stage| Recorded {
        stage,
        stages: json!({"execute": "up", "prepare": "for_devices"}),
        ..Recorded::of(number, "up", &library, 1)
    };
    call(2, "execute").write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 1);
    // A recorded prepare stage must not affect a different handler with the same name.
    let other = Recorded {
        stages: json!({"execute": "up", "prepare": "down"}),
        ..call(3, "prepare")
    };
    other.write(&folder);
    says(
        0,
        &replay(&folder, file, &[]),
        &["call 2, up (execute): equal"],
    );
    call(1, "prepare").write(&folder);
    for calls in ["calls", "calls/000002-up.xlacall"] {
        let said = ["call 2, up (execute): differs", "there is no device"];
        says(1, &replay_of(&folder, file, calls, &[]), &said);
    }
}

/// Tests that a call which cannot be replayed counts as a change of its state. Later calls with this state are not
/// compared if their results differ.
#[test]
fn calls_behind_one_that_was_left_out_are_not_compared() {
    let test = "replay.calls_behind_one_that_was_left_out_are_not_compared";
    let folder = folder("left_out");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let call = |number, stage, instance, told| Recorded {
        stage,
        stages: json!({"execute": "counts", "instantiate": "leaves_state"}),
        instance,
        ..Recorded::of(number, "counts", &library, told)
    };
    call(1, "instantiate", None, 0).write(&folder);
    call(3, "execute", Some(1), 0).write(&folder);
    let left_out = Recorded {
        left_out: true,
        ..call(4, "execute", Some(1), 1)
    };
    left_out.write(&folder);
    call(5, "execute", Some(1), 2).write(&folder);
    let file = library.to_str().unwrap();
    let why = "but an earlier call that may have changed its state was not repeated";
    let counted = "4 calls: 2 equal, 0 differ, 2 not compared";
    let said = ["call 5, counts (execute): not compared", why, counted];
    says(0, &replay(&folder, file, &[]), &said);
    // If the command line names a single file, only the outcome of the call in that file is reported.
    let said = ["call 5, counts (execute): not compared", why];
    let last = "calls/000005-counts.xlacall";
    says(1, &replay_of(&folder, file, last, &[]), &said);
}

/// Tests errors whose code is recorded separately. The whole text is compared, even if the text starts with the name of
/// a code.
#[test]
fn an_error_that_begins_with_a_code_is_compared_whole() {
    let test = "replay.an_error_that_begins_with_a_code_is_compared_whole";
    let folder = folder("errors");
    let Some(library) = library(test, &folder, 0) else {
        return;
    };
    let whole = "fails (execute): INVALID_ARGUMENT: so it says";
    let twice = "INVALID_ARGUMENT: fails (execute): INVALID_ARGUMENT: so it says";
    let call = |number, revision, code, message| Recorded {
        revision,
        error: Some((code, message)),
        ..Recorded::of(number, "fails", &library, 0)
    };
    call(1, 10, Some(3), whole).write(&folder);
    // Hosts before r9 add the code's name to the error text, as in the second call. The handler's own text, as in the
    // third call, must also be accepted.
    call(2, 8, None, twice).write(&folder);
    call(3, 8, None, whole).write(&folder);
    let file = library.to_str().unwrap();
    all_equal(&replay(&folder, file, &[]), 3);
    call(4, 10, Some(3), "fails (execute): so it says").write(&folder);
    call(5, 10, Some(3), twice).write(&folder);
    let said = ["5 calls: 3 equal, 2 differ, 0 not compared"];
    says(1, &replay(&folder, file, &[]), &said);
}
