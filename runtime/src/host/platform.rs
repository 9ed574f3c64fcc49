//! Names of platforms.

/// The one spelling of a platform's name: lower case, `"host"` is `"cpu"`.
#[must_use]
pub fn canonical_platform(platform: &str) -> String {
    match platform.to_ascii_lowercase().as_str() {
        "host" => "cpu".into(),
        "gpu" => "cuda".into(),
        other => other.into(),
    }
}
