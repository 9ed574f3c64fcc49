//! Tests the findings, confidence and exit status of `xla-ffi doctor` with libraries that the tests build.

mod description;
mod elsewhere;
mod extension;
mod files;
mod gate;
mod jaxlibs;
mod loader;
mod undescribed;
mod wheel;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

use xla_ffi_testing::compiler::library_of_text as build;

struct Report {
    code: Option<i32>,
    /// The first library's part of the JSON output.
    value: Value,
    whole: Value,
    stderr: String,
}

fn run(library: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("doctor")
        .arg(library)
        .args(arguments)
        .output()
        .unwrap()
}

fn doctor(library: &Path, arguments: &[&str]) -> Report {
    let output = run(library, &[arguments, &["--format=json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    let whole: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    Report {
        code: output.status.code(),
        value: whole["libraries"][0].clone(),
        whole,
        stderr,
    }
}

impl Report {
    /// Returns the confidence and severity of the finding whose text contains `what`; `None` if there is none.
    fn finding(&self, what: &str) -> Option<(String, String)> {
        let findings = self.value["findings"].as_array().unwrap();
        let finding = findings
            .iter()
            .find(|finding| finding["what"].as_str().unwrap().contains(what))?;
        assert!(!finding["why"].as_str().unwrap().is_empty());
        Some((
            finding["confidence"].as_str().unwrap().to_owned(),
            finding["severity"].as_str().unwrap().to_owned(),
        ))
    }

    fn proved_to_fail(&self, what: &str) {
        let expected = ("proved".to_owned(), "fails".to_owned());
        assert_eq!(
            self.finding(what),
            Some(expected),
            "{what}: {:#}",
            self.value
        );
        assert_eq!(self.code, Some(1));
    }

    fn loads(&self, version: &str, handler: &str) -> &str {
        let verdict = self.value["jaxlibs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|v| v["jaxlib"] == version && v["handler"] == handler)
            .unwrap();
        verdict["loads"].as_str().unwrap()
    }

    fn risks(&self, version: &str, handler: &str) -> Vec<(String, String)> {
        let verdicts = self.value["jaxlibs"].as_array().unwrap();
        verdicts
            .iter()
            .filter(|v| v["jaxlib"] == version && v["handler"] == handler)
            .flat_map(|v| v["risks"].as_array().unwrap())
            .map(|risk| {
                (
                    risk["confidence"].as_str().unwrap().to_owned(),
                    risk["what"].as_str().unwrap().to_owned(),
                )
            })
            .collect()
    }
}

const FIXED: &str = r#"
#include "xla/ffi/api/c_api.h"
XLA_FFI_Error* fixed(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version = MINOR;
    extension->metadata->traits = 0;
  }
  return 0;
}
XLA_FFI_Error* negotiating(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version =
        frame->api ? frame->api->api_version.minor_version : 1;
    extension->metadata->traits = 0;
  }
  return 0;
}
"#;
