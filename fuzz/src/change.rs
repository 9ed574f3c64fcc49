//! Changes to inputs that libFuzzer's own, which know of bytes alone, do not come to within hours: to what one part of a
//! structure says, with all the rest left sound.

pub(crate) mod binary;
pub(crate) mod debug;
mod dice;
pub(crate) mod json;

pub(crate) use dice::Dice;

/// What makes another input of one, by chance: the same where it is of no kind that is known.
pub(crate) type Change = fn(&[u8], &mut Dice) -> Vec<u8>;

/// Some changes, one after another, that leave everything where it is.
pub(crate) fn in_place(
    input: &[u8],
    dice: &mut Dice,
    change: impl Fn(&mut [u8], &mut Dice) -> Option<()>,
) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..=dice.below(3) {
        // What has no such part stays as it is.
        let _ = change(&mut input, dice);
    }
    input
}
