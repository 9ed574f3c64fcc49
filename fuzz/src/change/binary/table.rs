//! Entries of one size, one after another.

/// More entries of one table are left as they are.
const MOST: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    at: usize,
    /// Of one entry, in bytes.
    pub(super) size: usize,
    pub(super) count: usize,
    /// How many bytes the fields of an entry take, in their order; the last ones may come again.
    widths: &'static [usize],
    /// Whether the most significant byte comes first.
    pub(super) big: bool,
    /// Numbers that tell kinds of entries.
    pub(super) kinds: &'static [u32],
}

impl Table {
    /// A table of numbers, the least significant byte first, as much of it as lies in `file`.
    pub(super) fn of(file: &[u8], at: usize, count: usize, widths: &'static [usize]) -> Self {
        let size = widths.iter().sum();
        Self::sized(file, at, count, size, widths)
    }

    /// The same, whose entries are larger than their known fields, or as large as they say.
    pub(super) fn sized(
        file: &[u8],
        at: usize,
        count: usize,
        size: usize,
        widths: &'static [usize],
    ) -> Self {
        let room = file.len().saturating_sub(at);
        Self {
            at,
            size,
            count: count.min(room.checked_div(size).unwrap_or(0)).min(MOST),
            widths,
            big: false,
            kinds: &[],
        }
    }

    pub(super) fn big(self, big: bool) -> Self {
        Self { big, ..self }
    }

    pub(super) fn kinds(self, kinds: &'static [u32]) -> Self {
        Self { kinds, ..self }
    }

    /// The same, of a file in another.
    pub(super) fn within(self, at: usize) -> Self {
        Self {
            at: self.at + at,
            ..self
        }
    }

    /// Where an entry lies.
    pub(super) fn entry(&self, index: usize) -> usize {
        self.at + index * self.size
    }

    /// Where in an entry its fields lie, and how many bytes they take.
    pub(super) fn fields(&self) -> Vec<(usize, usize)> {
        let mut at = 0;
        let widths = self.widths.iter().cycle().copied();
        let places = widths.map(|width| {
            let place = (at, width);
            at += width;
            place
        });
        places
            .take_while(|(at, width)| at + width <= self.size)
            .collect()
    }
}

/// The number that lies somewhere.
pub(super) fn number(file: &[u8], at: usize, width: usize, big: bool) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(width)?)?;
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(match big {
        true => bytes.iter().fold(0, join),
        false => bytes.iter().rev().fold(0, join),
    })
}

/// The same, as a place in the file or a count.
pub(super) fn place(file: &[u8], at: usize, width: usize, big: bool) -> Option<usize> {
    let place = usize::try_from(number(file, at, width, big)?).ok()?;
    Some(place.min(file.len()))
}

pub(super) fn put(file: &mut [u8], at: usize, width: usize, big: bool, value: u64) {
    let mut bytes = value.to_le_bytes();
    let bytes = &mut bytes[..width];
    if big {
        bytes.reverse();
    }
    file[at..at + width].copy_from_slice(bytes);
}
