//! Whether two builds load on this machine at all, where that was tried.

use super::{Build, List, Step};
use crate::finding::{Finding, Problem, Subject};

impl Build<'_> {
    /// What kept it from loading on this machine; `None` too where that was not tried.
    #[must_use]
    pub fn does_not_load(&self) -> Option<&Finding> {
        let mut findings = self.examination.findings.iter();
        findings.find(|finding| finding.problem == Problem::DoesNotLoad)
    }
}

pub(super) fn compare(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    let mut about = list.about(Subject::Library);
    let what = "loads on this machine";
    match (old.does_not_load(), new.does_not_load()) {
        // Both were tried, or neither.
        (None, Some(finding)) => {
            let why = format!("callers find none of its handlers: {}", finding.why);
            about.changed(Step::Major, what, "yes", "no", &why);
        }
        (Some(_), None) => {
            let why = "callers find its handlers; what they answered before is not known";
            about.changed(Step::Minor, what, "no", "yes", why);
        }
        _ => {}
    }
}
