//! What reads text and files that others wrote, one target each: whatever comes, the answer is a value or
//! an error, soon and in little memory, and what is printed reads back.
//!
//! `cargo xtask soak` runs a fuzzer over the targets; `tests/corpus.rs` replays what broke one once.

mod attributes;
mod change;
mod contract;
mod debug_information;
mod header;
mod legacy;
mod library;
mod manifest;
mod meter;
mod npy;
mod recorded_call;
mod shape_proto;
mod snapshot;
mod spec;
mod text;
mod wheel;

use change::{Change, Dice};
use meter::Cost;

/// One parser under attack.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folders and of `cargo xtask soak NAME`.
    pub name: &'static str,
    /// Reads the input. It panics where a property does not hold.
    attack: fn(&[u8]),
    /// Changes an input to one of the same structure, where changes of bytes alone would mostly break it.
    change: Option<Change>,
    /// How many bytes of memory a byte of the input may cost.
    memory: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "attributes",
        attack: attributes::attack,
        change: None,
        memory: 512,
    },
    Target {
        name: "spec",
        attack: spec::attack,
        change: None,
        memory: 512,
    },
    Target {
        name: "npy",
        attack: npy::attack,
        change: None,
        memory: 64,
    },
    Target {
        name: "manifest",
        attack: manifest::attack,
        change: Some(manifest::change),
        memory: 512,
    },
    Target {
        name: "library",
        attack: library::attack,
        change: Some(library::change),
        memory: 256,
    },
    Target {
        name: "wheel",
        attack: wheel::attack,
        change: Some(wheel::change),
        memory: 256,
    },
    Target {
        name: "debug-information",
        attack: debug_information::attack,
        change: Some(debug_information::change),
        memory: 512,
    },
    Target {
        name: "header",
        attack: header::attack,
        change: None,
        memory: 64,
    },
    Target {
        name: "legacy",
        attack: legacy::attack,
        change: None,
        memory: 64,
    },
    Target {
        name: "shape-proto",
        attack: shape_proto::attack,
        change: None,
        memory: 256,
    },
    Target {
        name: "contract",
        attack: contract::attack,
        change: Some(contract::change),
        memory: 512,
    },
    Target {
        name: "recorded-call",
        attack: recorded_call::attack,
        change: Some(recorded_call::change),
        memory: 512,
    },
    Target {
        name: "snapshot",
        attack: snapshot::attack,
        change: Some(snapshot::change),
        memory: 512,
    },
];

impl Target {
    /// The target of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        TARGETS.iter().copied().find(|target| target.name == name)
    }

    /// Another input of the same structure; half of the time, and where a target has none, `None`: then bytes are to be
    /// changed, whatever they say.
    #[must_use]
    pub fn change(&self, input: &[u8], seed: u32) -> Option<Vec<u8>> {
        let mut dice = Dice::new(seed);
        let change = self.change.filter(|_| dice.below(2) == 0)?;
        Some(change(input, &mut dice)).filter(|changed| changed != input)
    }

    /// Lets it read `input`.
    ///
    /// # Panics
    /// Where a property of the target does not hold, or the input costs too much memory or time.
    pub fn run(&self, input: &[u8]) {
        let cost = Cost::of(|| (self.attack)(input));
        let allowed = meter::FREE + self.memory * input.len();
        assert!(
            cost.memory <= allowed,
            "{}: {} bytes of input took {} bytes of memory, {allowed} are allowed",
            self.name,
            input.len(),
            cost.memory
        );
        assert!(
            cost.time <= meter::LONGEST,
            "{}: {} bytes of input took {:?}",
            self.name,
            input.len(),
            cost.time
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Target = Target {
        name: "greedy",
        attack: |input| drop(std::hint::black_box(vec![1_u8; 1000 * input.len()])),
        change: None,
        memory: 900,
    };

    #[test]
    fn an_input_may_cost_as_much_as_its_target_says() {
        GREEDY.run(&[0; 10]);
        Target {
            memory: 1000,
            ..GREEDY
        }
        .run(&[0; 20_000]);
    }

    #[test]
    #[should_panic(expected = "20000 bytes of input took 20000000 bytes of memory")]
    fn more_is_a_finding() {
        GREEDY.run(&[0; 20_000]);
    }
}
