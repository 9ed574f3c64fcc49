//! Findings in the forms that CI reads: SARIF, and GitHub's annotations.

use serde_json::{Value, json};

/// How an answer is written.
#[derive(clap::Args)]
pub(crate) struct Form {
    /// Output format: `sarif` (2.1.0) and `github` (annotations) are for CI.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How an answer is written that CI does not annotate.
#[derive(clap::Args)]
pub(crate) struct TextOrJson {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Plain::Text)]
    format: Plain,
}

impl TextOrJson {
    pub(crate) fn is_json(&self) -> bool {
        self.format == Plain::Json
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Plain {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Sarif,
    Github,
}

/// One finding, as CI is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotation {
    /// `XF204`.
    pub(crate) id: &'static str,
    /// `error`, `warning` or `note`.
    pub(crate) level: &'static str,
    /// What it says.
    pub(crate) message: String,
    /// The file, as it was given.
    pub(crate) path: String,
    /// The line by which lists know it.
    pub(crate) key: String,
    /// Why it is known, if it is.
    pub(crate) known: Option<String>,
}

/// What a number stands for.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    pub(crate) name: String,
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
}

/// SARIF 2.1.0: one run, every finding a result, known ones suppressed with their reason.
pub(crate) fn sarif(tool: &str, rules: &[Rule], told: &[Annotation]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "name": rule.name,
                "shortDescription": { "text": rule.meaning },
                "help": { "text": rule.remedy },
            })
        })
        .collect();
    let results: Vec<Value> = told
        .iter()
        .map(|told| {
            let mut result = json!({
                "ruleId": told.id,
                "level": told.level,
                "message": { "text": told.message },
                "locations": [{
                    "physicalLocation": { "artifactLocation": { "uri": uri(&told.path) } },
                }],
                "partialFingerprints": { "key/v1": told.key },
            });
            if let Some(reason) = &told.known {
                result["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": tool,
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "results": results,
        }],
    })
}

/// A path as a relative reference of RFC 3986: what has a meaning of its own there is no part of a name.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

/// Workflow commands: one line a finding; notes and what is known are left away.
pub(crate) fn github(told: &[Annotation]) -> String {
    // What the commands take for their own.
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let told = told
        .iter()
        .filter(|told| told.level != "note" && told.known.is_none());
    let lines = told.map(|told| {
        format!(
            "::{} file={},title={}::{}\n",
            told.level,
            property(&told.path),
            property(told.id),
            data(&told.message)
        )
    });
    lines.collect()
}
