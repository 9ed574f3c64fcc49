//! Changes to inputs that libFuzzer's own, which know of bytes alone, do not come to within hours: to one field of one
//! entry of a table that others point into, with all the rest left sound.

mod binary;
mod debug;
mod dice;

use dice::Dice;

/// Changes an input in place; gives none where it is not of the kind that is known.
type Change = fn(&mut [u8], &mut Dice) -> Option<()>;

fn change(target: &str) -> Option<Change> {
    Some(match target {
        // What debug information says is judged, too.
        "library" => |input, dice| match dice.below(4) {
            0 => debug::change(input, dice).or_else(|| binary::change(input, dice)),
            _ => binary::change(input, dice),
        },
        "wheel" => |input, dice| binary::change(input.get_mut(1..)?, dice),
        "debug-information" => |input, dice| match dice.below(4) {
            0 => binary::change(input, dice),
            _ => debug::change(input, dice),
        },
        _ => return None,
    })
}

/// Changes the first `size` bytes of `input`, which `target` reads, and gives their new number. `plain` changes bytes as
/// libFuzzer does: half of all times, and wherever the input is of no kind that is known.
pub fn mutate(
    target: &str,
    input: &mut [u8],
    size: usize,
    seed: u32,
    plain: impl Fn(&mut [u8], usize) -> usize,
) -> usize {
    let mut dice = Dice::new(seed);
    let Some(change) = change(target).filter(|_| dice.below(2) == 0) else {
        return plain(input, size);
    };
    // Before a library in a wheel stands its tag.
    let before = usize::from(target == "wheel").min(size);
    if target != "debug-information" && dice.below(3) == 0 {
        let changed =
            binary::manifest::change(&mut input[before..], size - before, &mut dice, &plain);
        if let Some(size) = changed {
            return before + size;
        }
    }
    // The longer a file, the more it may ask of who reads its debug information, and the later that ends.
    let more = dice.below(64);
    if target == "debug-information" && dice.below(16) == 0 && more < input.len() - size {
        input[size..size + more].fill(0);
        return size + more;
    }
    let times = 1 + dice.below(3);
    let changed = (0..times).filter_map(|_| change(&mut input[..size], &mut dice));
    match changed.count() {
        0 => plain(input, size),
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files = std::fs::read_dir(folder.join(target)).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn every_seed_of_binaries_is_changed() {
        for target in ["library", "wheel", "debug-information"] {
            for seed in seeds(target) {
                let mut changed = 0;
                for dice in 0..200 {
                    let mut input = seed.clone();
                    mutate(target, &mut input, seed.len(), dice, |_, size| size);
                    changed += usize::from(input != seed);
                }
                assert!(changed > 20, "{target}: {changed} of 200 were changed");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_change() {
        let of = |dice| {
            let mut input = seeds("library").remove(0);
            let size = input.len();
            (
                mutate("library", &mut input, size, dice, |_, size| size),
                input,
            )
        };
        assert!((0..50).all(|dice| of(dice) == of(dice)));
    }

    #[test]
    fn damaged_files_are_survived() {
        for target in ["library", "wheel", "debug-information"] {
            for mut input in seeds(target) {
                for dice in 0..2000 {
                    let size = input.len();
                    mutate(target, &mut input, size, dice, |_, size| size);
                    if dice % 500 == 499 {
                        input.truncate(input.len() / 2);
                    }
                }
            }
        }
    }
}
