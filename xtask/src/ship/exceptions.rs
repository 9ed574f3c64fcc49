//! The packed runtime, linked by zig, beside handlers that g++ built: whatever they throw is told.

use super::{Ship, path_text};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the tests of the runtime throw out of handlers, with what is said of it.
const THROWN: [(&str, &str); 5] = [
    ("throws_int", "of type i"),
    ("throws_struct", "of type 7Payload"),
    ("throws_text", "as a C string"),
    ("throws_string", "as a string"),
    ("throws_standard", "out of range"),
];

/// A program on the packed library: it calls the handlers by their names.
const PROGRAM: &str = r#"
#include <stdio.h>
#include "xla_ffi/runtime.h"
#define HANDLER(name) XLA_FFI_Error* name(XLA_FFI_CallFrame*);
HANDLER(throws_int) HANDLER(throws_struct) HANDLER(throws_text) HANDLER(throws_string) HANDLER(throws_standard)
static int says(xffi_rt* runtime, const char* name, XLA_FFI_Handler* handler) {
  XLA_FFI_Handler_Bundle bundle = {0};
  xffi_rt_call* call = NULL;
  xffi_rt_status* status;
  bundle.execute = handler;
  if ((status = xffi_rt_register(runtime, name, "Host", &bundle, 0)) == NULL &&
      (status = xffi_rt_call_create(runtime, name, "Host", NULL, &call)) == NULL)
    status = xffi_rt_call_run(call);
  printf("%s: %s\n", name, status == NULL ? "nothing" : xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  xffi_rt_call_destroy(call);
  return 0;
}
int main(void) {
  xffi_rt* runtime = NULL;
  if (xffi_rt_create(XFFI_RT_NEWEST, &runtime) != NULL) return 1;
  says(runtime, "throws_int", throws_int);
  says(runtime, "throws_struct", throws_struct);
  says(runtime, "throws_text", throws_text);
  says(runtime, "throws_string", throws_string);
  says(runtime, "throws_standard", throws_standard);
  return 0;
}
"#;

/// Takes the handlers out of the checkout, which cannot be read later.
pub(super) fn bring(root: &Path, place: &Path) -> Result<()> {
    let source = root.join("runtime/tests/cxx/misuse.cc");
    fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    fs::copy(&source, place.join("misuse.cc")).with_context(|| source.display().to_string())?;
    fs::write(place.join("exceptions.c"), PROGRAM)?;
    Ok(())
}

pub(super) fn are_known(ship: &Ship, work: &Path, tools: &Path) -> Result<()> {
    let ask = |what: &str| {
        let answer = ship.output(work, tools, "python", &["-m", "xla_ffi", what], &[])?;
        Ok::<_, anyhow::Error>(answer.trim().to_owned())
    };
    let include = format!("-I{}", ask("--include-dir")?);
    let folder = ask("--lib-dir")?;
    let (library, runpath) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let source = ship.place.join("misuse.cc");
    let handlers = [
        "-shared",
        "-fPIC",
        "-pthread",
        &include,
        path_text(&source)?,
        "-o",
        "libmisuse.so",
    ];
    ship.run(work, tools, "g++", &handlers)?;
    let program = ship.place.join("exceptions.c");
    let linked = [
        "-L.",
        "-lmisuse",
        "-Wl,-rpath,.",
        &library,
        "-lxla_ffi_runtime",
        &runpath,
    ];
    let arguments = [
        &[include.as_str(), path_text(&program)?, "-o", "exceptions"][..],
        &linked,
    ]
    .concat();
    ship.run(work, tools, "gcc", &arguments)?;
    let told = ship.output(work, tools, path_text(&work.join("exceptions"))?, &[], &[])?;
    for (handler, text) in THROWN {
        let line = told.lines().find(|line| line.starts_with(handler));
        ensure!(
            line.is_some_and(|line| line.contains(text)),
            "the packed library does not say {text:?} of {handler}:\n{told}"
        );
        // The program of the wheel has a guard of its own.
        let mut command: Command = ship.command(work, tools.join("xla-ffi"));
        let output = command
            .args(["run", "libmisuse.so", "--handler", handler])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && said.contains(text),
            "the packed program does not say {text:?} of {handler}: {said}"
        );
    }
    Ok(())
}
