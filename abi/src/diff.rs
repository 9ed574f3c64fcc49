//! d
use crate::model::Abi;
pub(crate) fn differences(a: &Abi, b: &Abi) -> Vec<String> {
    let (a, b) = (format!("{a:#?}"), format!("{b:#?}"));
    if a == b {
        return vec![];
    }
    let (a, b): (Vec<_>, Vec<_>) = (a.lines().collect(), b.lines().collect());
    for i in 0..a.len().min(b.len()) {
        if a[i] != b[i] {
            return (i.saturating_sub(15)..i + 5)
                .map(|i| format!("{} | {}", a.get(i).unwrap_or(&""), b.get(i).unwrap_or(&"")))
                .collect();
        }
    }
    vec!["length".into()]
}
