//! What libraries ask of macOS beside what the tag of their wheel promises.

use super::Wheel;
use super::judge::Read;
use super::tag::Platform;
use crate::finding::{Finding, Problem};
use crate::release::dotted;

pub(super) fn findings(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    let tags = wheel.name.platforms.iter().filter_map(|tag| match tag {
        Platform::Macos { oldest, .. } => Some((*oldest, tag)),
        _ => None,
    });
    let Some((promised, tag)) = tags.min_by_key(|(oldest, _)| *oldest) else {
        return;
    };
    let asks = libraries.iter().filter_map(|library| {
        let asked = library.facts.as_ref()?.apple.as_ref()?.oldest.as_ref()?;
        Some((library.name(), asked))
    });
    let Some((name, asked)) = asks.max_by_key(|(_, asked)| *asked) else {
        return;
    };
    if asked.as_slice() > promised.as_slice() {
        found.push(
            Finding::risk(Problem::WheelPromise,
                format!("it may be installed on {tag}, and {name} is built for macOS {}", dotted(asked)),
                "its deployment target; an older macOS may lack what it calls, and refuses it then",
            )
            .fix(format!(
                "build with MACOSX_DEPLOYMENT_TARGET={}, or name the newer macOS in the tag: `delocate-wheel` does",
                dotted(&promised)
            )),
        );
    }
}
