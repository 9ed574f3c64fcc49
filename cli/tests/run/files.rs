//! Operands from files and results to files.

use crate::*;
use std::io::Write;
use std::process::Stdio;

fn npy(name: &str, header: &str, data: &[u8]) -> String {
    let path = tmp().join(name);
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    std::fs::write(&path, bytes).unwrap();
    format!("f32[2,2]=@{}", path.display())
}

#[test]
fn files_go_in_and_out() {
    let Some(lib) = library("files_go_in_and_out") else {
        return;
    };
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let data: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let arg = npy("good.npy", header, &data);
    let out = tmp().join("out.npz");
    let path = out.to_str().unwrap();
    let args = [
        "--handler",
        "add_one",
        "--arg",
        &arg,
        "--ret",
        "f32[2,2]",
        "--out",
        path,
    ];
    assert_eq!(succeeds(&lib, &args), "ret0: f32[2,2] [[2, 3], [4, 5]]\n");
    let bytes = std::fs::read(&out).unwrap();
    assert!(bytes.starts_with(b"PK\x03\x04"));
    assert!(bytes.windows(8).any(|window| window == b"ret0.npy"));
    let refuse = |name: &str, header: &str, data: &[u8], text: &str| {
        let arg = npy(name, header, data);
        let said = fails(
            1,
            &lib,
            &["--handler", "add_one", "--arg", &arg, "--ret", "f32[2,2]"],
        );
        assert!(said.contains(text) && said.contains(name), "{said}");
    };
    refuse("short.npy", header, &data[..15], "truncated");
    refuse("big.npy", &header.replace('<', ">"), &data, "big-endian");
    refuse(
        "fortran.npy",
        &header.replace("False", "True"),
        &data,
        "Fortran",
    );
    refuse(
        "objects.npy",
        &header.replace("<f4", "|O"),
        &data,
        "objects",
    );
    refuse("wide.npy", &header.replace("<f4", "<f8"), &[0; 32], "<f8");
    refuse(
        "shape.npy",
        &header.replace("(2, 2)", "(4,)"),
        &data,
        "shape",
    );
    let missing = [
        "--handler",
        "add_one",
        "--arg",
        "f32[1]=@none.npy",
        "--ret",
        "f32[1]",
    ];
    assert!(fails(1, &lib, &missing).contains("none.npy"));
}

#[test]
fn pipes_and_crowds_are_refused_at_once() {
    let fifo = tmp().join("pipe.so");
    let _ = std::fs::remove_file(&fifo);
    if !Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .is_ok_and(|s| s.success())
    {
        skip("pipes_and_crowds_are_refused_at_once", "no mkfifo");
        return;
    }
    for command in ["run", "inspect", "doctor", "bench"] {
        let out = xla_ffi(command, &fifo, &[]);
        assert_eq!(out.status.code(), Some(1), "{command}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("not a regular file"));
    }
    // Nor is an argument waited for.
    let Some(lib) = library("pipes_and_crowds_are_refused_at_once") else {
        return;
    };
    let argument = format!("f32[1]=@{}", fifo.display());
    let errors = fails(1, &lib, &["--handler", "add_one", "--arg", &argument]);
    assert!(
        errors.contains("--arg 0") && errors.contains("not a regular file"),
        "{errors}"
    );
    let errors = fails(2, &fifo, &["--threads", "1000000000"]);
    assert!(errors.contains("1024"), "{errors}");
}

/// A pipe with a name would be waited for as it is opened, whichever end of it a command takes.
#[test]
fn pipes_that_nobody_is_at_are_refused_at_once() {
    let test = "pipes_that_nobody_is_at_are_refused_at_once";
    let Some(lib) = library(test) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = folder.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        made.is_ok_and(|made| made.success())
            .then(|| path.display().to_string())
    };
    let Some(any) = pipe("any") else {
        return skip(test, "no mkfifo");
    };
    let wheel = pipe("x-1-py3-none-any.whl").unwrap();
    let json = pipe("ff.json").unwrap();
    let lib = lib.to_str().unwrap();
    let cases: [&[&str]; 8] = [
        &["doctor", "--no-run", lib, "--allow", &any],
        &["doctor", "--no-run", lib, "--baseline", &any],
        &["doctor", "--no-run", lib, "--write-baseline", &any],
        &["doctor", "--wheel", &wheel],
        &["abi", "show", &json],
        &["abi", "check", "--layout", &any, "--revision", "r10"],
        &[
            "run",
            lib,
            "--handler",
            "add_one",
            "--arg",
            "f32=1",
            "--ret",
            "f32",
            "--out",
            &any,
        ],
        &["stubs", lib, "-o", &any],
    ];
    for case in cases {
        let command = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(case)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut command = command.unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while command.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                command.kill().unwrap();
                panic!("{case:?} waits");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let out = command.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{case:?}: {errors}");
        assert!(
            errors.contains("it is not a regular file"),
            "{case:?}: {errors}"
        );
    }
}

/// Pipes of a shell's, which are open already, are written to and read as ever.
#[test]
fn pipes_that_are_open_are_welcome() {
    let Some(lib) = library("pipes_that_are_open_are_welcome") else {
        return;
    };
    let call = ["--handler", "add_one", "--arg", "f32=1", "--ret", "f32"];
    let out = xla_ffi(
        "run",
        &lib,
        &[&call[..], &["--out", "/dev/stdout"]].concat(),
    );
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stdout.windows(4).any(|bytes| bytes == b"PK\x03\x04"));
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["doctor", "--no-run", "--allow", "/dev/stdin"])
        .arg(&lib)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let list = b"a line without a reason\n";
    doctor.stdin.take().unwrap().write_all(list).unwrap();
    let errors = doctor.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    assert!(errors.contains("/dev/stdin, line 1"), "{errors}");
}

/// An array of thousands of dimensions is a mistake of the command line, not of the handler.
#[test]
fn dimensions_without_end_are_refused_at_once() {
    let Some(lib) = library("dimensions_without_end_are_refused_at_once") else {
        return;
    };
    let ones = vec!["1"; 60_000].join(",");
    let begin = Instant::now();
    for spec in [format!("f32[{ones}]=1"), format!("f32[{ones}]=iota")] {
        let errors = fails(2, &lib, &["--handler", "add_one", "--arg", &spec]);
        assert!(errors.contains("60000 dimensions; an array has 1024 at most"));
    }
    let ret = format!("f32[{ones}]");
    let errors = fails(2, &lib, &["--handler", "add_one", "--ret", &ret]);
    assert!(errors.contains("60000 dimensions"));
    assert!(begin.elapsed() < Duration::from_secs(3));
    // As many as there may be.
    let spec = format!("f32[{}]=1", vec!["1"; 1024].join(","));
    let ret = spec.strip_suffix("=1").unwrap();
    succeeds(
        &lib,
        &["--handler", "add_one", "--arg", &spec, "--ret", ret],
    );
}

#[test]
fn a_full_disk_and_a_closed_pipe_are_told() {
    let test = "a_full_disk_and_a_closed_pipe_are_told";
    let Some(lib) = library(test) else {
        return;
    };
    let full = Path::new("/dev/full");
    if !full.exists() {
        skip(test, "no /dev/full");
        return;
    }
    let lib = lib.to_str().unwrap();
    let run = [
        "run",
        lib,
        "--handler",
        "add_one",
        "--arg",
        "f32=1",
        "--ret",
        "f32",
    ];
    let inspect = ["inspect", lib, "--handler", "add_one"];
    let bench = [
        "bench",
        lib,
        "--handler",
        "add_one",
        "--arg",
        "f32=1",
        "--ret",
        "f32",
    ];
    for command in [&run[..], &inspect, &bench] {
        let out = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(command)
            .stdout(std::fs::OpenOptions::new().write(true).open(full).unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{command:?}: {said}");
        assert!(
            said.starts_with("error: ") && said.contains("No space left"),
            "{said}"
        );
        let (closed, pipe) = std::io::pipe().unwrap();
        drop(closed);
        let out = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(command)
            .stdout(pipe)
            .output()
            .unwrap();
        assert_eq!(
            (out.status.code(), &out.stderr[..]),
            (Some(0), &b""[..]),
            "{command:?}"
        );
    }
}

#[test]
fn results_go_through_links() {
    let Some(lib) = library("results_go_through_links") else {
        return;
    };
    let (file, link) = (tmp().join("linked.npz"), tmp().join("link.npz"));
    std::fs::write(&file, "old").unwrap();
    drop(std::fs::remove_file(&link));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let call = ["--handler", "add_one", "--arg", "f32=1", "--ret", "f32"];
    let out = ["--out", link.to_str().unwrap()];
    succeeds(&lib, &[&call[..], &out].concat());
    assert!(link.is_symlink());
    assert!(std::fs::read(&file).unwrap().starts_with(b"PK"));
    // Also where they lead to a file that is not there yet.
    std::fs::remove_file(&file).unwrap();
    succeeds(&lib, &[&call[..], &out].concat());
    assert!(link.is_symlink() && file.is_file());
    // What is read is not written to, by whatever name.
    let copy = tmp().join("libcopy.so");
    std::fs::copy(&lib, &copy).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let argument = npy("input.npy", header, &[0; 16]);
    let input = tmp().join("input.npy");
    drop(std::fs::remove_file(&link));
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    for (argument, out) in [("f32[2,2]=ones", &link), (argument.as_str(), &input)] {
        let call = [
            "--handler",
            "add_one",
            "--arg",
            argument,
            "--ret",
            "f32[2,2]",
        ];
        let said = fails(
            1,
            &copy,
            &[&call[..], &["--out", out.to_str().unwrap()]].concat(),
        );
        assert!(said.contains("is read by this command"), "{said}");
    }
    succeeds(&copy, &call);
    // A device is written to; it is not replaced by a file.
    let null = Path::new("/dev/null");
    succeeds(&lib, &[&call[..], &["--out", "/dev/null"]].concat());
    assert!(null.exists() && !null.is_file());
}

#[test]
fn a_file_that_is_there_stays_as_readable_and_writable_as_it_was() {
    use std::os::unix::fs::PermissionsExt;
    let test = "a_file_that_is_there_stays_as_readable_and_writable_as_it_was";
    let Some(lib) = library(test) else { return };
    let file = tmp().join("private.npz");
    drop(std::fs::remove_file(&file));
    std::fs::write(&file, "old").unwrap();
    let mode = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let call = ["--handler", "add_one", "--arg", "f32=1", "--ret", "f32"];
    let call = [&call[..], &["--out", file.to_str().unwrap()]].concat();
    mode(0o600);
    succeeds(&lib, &call);
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    mode(0o400);
    let before = std::fs::metadata(&file).unwrap().modified().unwrap();
    let out = xla_ffi("run", &lib, &call);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("read-only"), "{said}");
    assert_eq!(
        std::fs::metadata(&file).unwrap().modified().unwrap(),
        before
    );
}

/// What standard output does not take is in the file all the same.
#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_told_are_written() {
    let Some(lib) = library("results_that_cannot_be_told_are_written") else {
        return;
    };
    let file = tmp().join("untold.npz");
    drop(std::fs::remove_file(&file));
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
    let command = command.arg("run").arg(&lib).stdout(full);
    let call = [
        "--handler",
        "add_one",
        "--arg",
        "f32=1",
        "--ret",
        "f32",
        "--out",
    ];
    let out = command.args(call).arg(&file).output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("No space left"));
    assert!(std::fs::read(&file).unwrap().starts_with(b"PK"));
}
