//! Tests operands that are read from files, and results that are written to files.

use crate::*;

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
        "--output",
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
    // An argument that names a pipe is refused without reading from it.
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

/// Tests input files that are truncated at every length, and output files that cannot be written.
#[test]
fn files_that_end_early_and_outputs_that_fail() {
    let test = "files_that_end_early_and_outputs_that_fail";
    let Some(lib) = library(test) else {
        return;
    };
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return skip(test, "no /dev/full");
    };
    let call = |arg: &str, more: &[&str]| {
        let call = ["--handler", "add_one", "--arg", arg, "--ret", "f32[2,2]"];
        xla_ffi("run", &lib, &[&call, more].concat())
    };
    let refused = |out: Output, named: &Path| {
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("error: ") && said.contains(&*named.to_string_lossy()),
            "{said}"
        );
    };
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let arg = npy("whole.npy", header, &[0; 16]);
    assert_eq!(call(&arg, &[]).status.code(), Some(0));
    let whole = std::fs::read(tmp().join("whole.npy")).unwrap();
    let cut = tmp().join("cut.npy");
    for size in 0..whole.len() {
        std::fs::write(&cut, &whole[..size]).unwrap();
        refused(call(&format!("f32[2,2]=@{}", cut.display()), &[]), &cut);
    }
    let whole = std::fs::read(&lib).unwrap();
    let cut = tmp().join("libcut.so");
    for part in 0..20 {
        std::fs::write(&cut, &whole[..whole.len() * part / 20]).unwrap();
        refused(xla_ffi("run", &cut, &["--handler", "add_one"]), &cut);
    }
    for place in [
        tmp(),
        tmp().join("none/out.npz"),
        PathBuf::from("/dev/full"),
    ] {
        refused(
            call("f32[2,2]=ones", &["--output", place.to_str().unwrap()]),
            &place,
        );
    }
    // If standard error cannot be written, the exit status must not change.
    for (arg, status) in [("f32[2,2]=ones", 0), ("f32[2]=@none.npy", 1)] {
        let out = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("run")
            .arg(&lib)
            .args(["--handler", "add_one", "--arg", arg, "--ret", "f32[2,2]"])
            .stderr(full.try_clone().unwrap())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(status), "{arg}");
    }
}
