//! What the pages say is so: code of the README, links, and what `docs/stability.md` promises to keep.

mod readme;
mod stability;
