//! A host's call frame, copied word by word into memory of exactly its size, and what a hostile host
//! may do to it. What cannot be seen from inside a handler is never done: memory that is shorter than
//! it is said to be, or a table that is.

use crate::rng::Rng;
use std::collections::HashMap;

/// Where the parts of a frame begin, in words.
const ARGS: usize = 5;
const RETS: usize = 10;
const ATTRS: usize = 15;

const DICTIONARY: u32 = 2;
const TOKEN: u32 = 17;
/// Number of the element type `F32`.
const F32: u32 = 11;

/// A frame, and everything it points to but the elements.
pub(crate) struct Copied {
    pub(crate) frame: Vec<u64>,
    operands: [List; 2],
    attrs: Attrs,
    /// Elements that replaced a tensor's; they live until the call is complete.
    pub(crate) elements: Vec<Vec<u64>>,
}

/// Arguments or results.
#[derive(Default)]
struct List {
    types: Vec<u32>,
    entries: Vec<Option<Vec<u64>>>,
    dims: Vec<Vec<i64>>,
    pointers: Vec<u64>,
}

/// Attributes, or a dictionary among them.
#[derive(Default)]
struct Attrs {
    types: Vec<u32>,
    names: Vec<Vec<u8>>,
    spans: Vec<Vec<u64>>,
    values: Vec<Option<Vec<u64>>>,
    nested: HashMap<usize, Attrs>,
    pointers: [Vec<u64>; 2],
    /// Values that replaced a host's.
    elements: Vec<Vec<u64>>,
}

/// Reads words.
///
/// # Safety
/// So many words are there.
unsafe fn words(at: u64, count: usize) -> Vec<u64> {
    let at = std::ptr::with_exposed_provenance::<u64>(at as usize);
    // SAFETY: the caller's promise; every struct of the ABI is of words.
    (0..count)
        .map(|i| unsafe { at.wrapping_add(i).read() })
        .collect()
}

/// Reads numbers of kinds.
///
/// # Safety
/// As [`words`], of half words.
unsafe fn kinds(at: u64, count: usize) -> Vec<u32> {
    let at = std::ptr::with_exposed_provenance::<u32>(at as usize);
    // SAFETY: the caller's promise.
    (0..count)
        .map(|i| unsafe { at.wrapping_add(i).read() })
        .collect()
}

/// A vector's address, for a field.
fn address<T>(list: &[T]) -> u64 {
    list.as_ptr().expose_provenance() as u64
}

/// Memory of this size and no more.
fn exactly(mut words: Vec<u64>, bytes: usize) -> Vec<u64> {
    words.truncate(bytes / 8);
    words.shrink_to_fit();
    words
}

impl List {
    /// # Safety
    /// The five words of a host's list.
    unsafe fn of(list: &[u64]) -> Self {
        let size = list[2] as usize;
        // SAFETY: a host's lists are whole.
        let types = unsafe { kinds(list[3], size) };
        // SAFETY: as above.
        let pointers = unsafe { words(list[4], size) };
        // SAFETY: each entry is a buffer of six words.
        let entries: Vec<_> = pointers.iter().map(|at| unsafe { words(*at, 6) }).collect();
        let dims = entries.iter().map(|buffer| {
            // SAFETY: as many as the rank says.
            let dims = unsafe { words(buffer[5], buffer[4] as usize) };
            dims.into_iter().map(u64::cast_signed).collect()
        });
        Self {
            types,
            dims: dims.collect(),
            entries: entries.into_iter().map(Some).collect(),
            pointers,
        }
    }

    /// Writes the addresses of what this has. `into` are the five words of the list.
    fn lay(&mut self, into: &mut [u64]) {
        let entries = self.entries.iter_mut().zip(&self.dims);
        self.pointers = entries
            .map(|(entry, dims)| match entry {
                None => 0,
                Some(buffer) => {
                    if let Some(place) = buffer.get_mut(5)
                        && *place != 0
                    {
                        *place = address(dims);
                    }
                    address(buffer)
                }
            })
            .collect();
        self.types.shrink_to_fit();
        self.pointers.shrink_to_fit();
        into[3] = address(&self.types);
        into[4] = address(&self.pointers);
    }
}

impl Attrs {
    /// # Safety
    /// The six words of a host's attributes.
    unsafe fn of(list: &[u64]) -> Self {
        let size = list[2] as usize;
        // SAFETY: a host's lists are whole.
        let types = unsafe { kinds(list[3], size) };
        // SAFETY: as above.
        let names = unsafe { words(list[4], size) };
        // SAFETY: each name is a span of two words.
        let spans: Vec<_> = names.iter().map(|at| unsafe { words(*at, 2) }).collect();
        let names = spans.iter().map(|span| {
            let at = std::ptr::with_exposed_provenance::<u8>(span[0] as usize);
            // SAFETY: the span's bytes.
            (0..span[1] as usize)
                .map(|i| unsafe { at.wrapping_add(i).read() })
                .collect()
        });
        // SAFETY: as above.
        let pointers = unsafe { words(list[5], size) };
        let values = pointers.iter().zip(&types).map(|(at, kind)| {
            let size = match *kind {
                1 => 3,
                DICTIONARY => 6,
                _ => 2,
            };
            // SAFETY: the kind says how many.
            unsafe { words(*at, size) }
        });
        let values: Vec<_> = values.collect();
        let nested = types.iter().zip(&values).enumerate();
        let nested = nested.filter(|(_, (kind, _))| **kind == DICTIONARY);
        // SAFETY: a dictionary has the words of attributes.
        let nested = nested.map(|(i, (_, value))| (i, unsafe { Self::of(value) }));
        Self {
            nested: nested.collect(),
            types,
            names: names.collect(),
            spans,
            values: values.into_iter().map(Some).collect(),
            ..Self::default()
        }
    }

    fn lay(&mut self, into: &mut [u64]) {
        for (span, name) in self.spans.iter_mut().zip(&self.names) {
            span[0] = address(name);
        }
        for (i, inner) in &mut self.nested {
            if let Some(Some(value)) = self.values.get_mut(*i)
                && self.types[*i] == DICTIONARY
                && value.len() == 6
            {
                inner.lay(value);
            }
        }
        let values = self.values.iter();
        self.pointers = [
            self.spans.iter().map(|span| address(span)).collect(),
            values
                .map(|value| value.as_ref().map_or(0, |value| address(value)))
                .collect(),
        ];
        self.types.shrink_to_fit();
        into[3] = address(&self.types);
        into[4] = address(&self.pointers[0]);
        into[5] = address(&self.pointers[1]);
    }

    /// Whether the call must be refused now. `size` is the list's own word.
    fn mutate(&mut self, rng: &mut Rng, size: &mut u64) -> bool {
        let i = rng.below(self.types.len());
        if let Some(inner) = self.nested.get_mut(&i)
            && self.types[i] == DICTIONARY
            && let Some(Some(value)) = self.values.get_mut(i)
            && rng.below(2) == 0
            && !inner.types.is_empty()
        {
            return inner.mutate(rng, &mut value[2]);
        }
        let kind = self.types[i];
        match rng.below(9) {
            0 => {
                self.types[i] = rng.other(kind, 6);
                let mut words = vec![0; 6];
                words[0] = if self.types[i] == DICTIONARY { 48 } else { 11 };
                self.values[i] = Some(words);
                true
            }
            1 => {
                self.values[i] = None;
                true
            }
            2 => match (kind, &mut self.values[i]) {
                (1 | 3, Some(value)) => {
                    value[0] = rng.other(value[0] as u32, 40).into();
                    true
                }
                _ => false,
            },
            3 => match (kind, &mut self.values[i]) {
                (1, Some(value)) if value[1] > 0 => {
                    value[2] = 0;
                    true
                }
                (3, Some(value)) => {
                    value[1] = 0;
                    true
                }
                (4, Some(value)) if value[1] > 0 => {
                    value[0] = 0;
                    true
                }
                _ => false,
            },
            4 => {
                self.names[i] = vec![b'!'; 1 + rng.below(9)];
                self.spans[i][1] = self.names[i].len() as u64;
                true
            }
            5 => {
                *size = rng.pick(&[self.types.len() as u64 - 1, u64::MAX, 1 << 63]);
                true
            }
            6 => {
                // One more, which has the name of another.
                self.types.push(kind);
                self.names.push(self.names[i].clone());
                self.spans.push(self.spans[i].clone());
                let value = self.values[i].clone().filter(|_| kind != DICTIONARY);
                self.values.push(value);
                *size = self.types.len() as u64;
                false
            }
            7 => {
                // An empty one, which may lie nowhere.
                if let (1 | 4, Some(value)) = (kind, &mut self.values[i]) {
                    value[1] = 0;
                    if rng.below(2) == 0 {
                        value[if kind == 1 { 2 } else { 0 }] = 0;
                    }
                }
                false
            }
            // A truth value that is neither.
            _ => {
                // The other half of the word is padding.
                if let (3, Some(value)) = (kind, &mut self.values[i])
                    && value[0] as u32 == 1
                {
                    self.elements.push(vec![2 + rng.next() % 254]);
                    value[1] = address(&self.elements[self.elements.len() - 1]);
                }
                false
            }
        }
    }
}

/// What a mutation asks for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// An error.
    Error,
    /// That nothing breaks.
    Life,
}

impl Copied {
    /// # Safety
    /// A host's frame.
    pub(crate) unsafe fn of(frame: *const u64) -> Self {
        // SAFETY: the size is every frame's first word; from r2 on the future lies behind it.
        let size = unsafe { frame.read() } as usize;
        let at = frame.expose_provenance() as u64;
        // SAFETY: the host's frame has so many words.
        let mut frame = unsafe { words(at, size.div_ceil(8)) };
        frame.shrink_to_fit();
        Self {
            // SAFETY: the host's lists.
            operands: [ARGS, RETS].map(|at| unsafe { List::of(&frame[at..at + 5]) }),
            // SAFETY: the host's attributes.
            attrs: unsafe { Attrs::of(&frame[ATTRS..ATTRS + 6]) },
            frame,
            elements: vec![],
        }
    }

    /// Nothing but elements.
    pub(crate) fn only(elements: Vec<Vec<u64>>) -> Self {
        Self {
            frame: vec![],
            operands: Default::default(),
            attrs: Attrs::default(),
            elements,
        }
    }

    /// Room for the future of r2 and later, behind what `struct_size` covers.
    pub(crate) fn with_future(&mut self) {
        self.frame.resize(22, 0);
        self.frame.shrink_to_fit();
    }

    /// Writes all addresses anew.
    pub(crate) fn lay(&mut self) {
        let [args, rets] = &mut self.operands;
        if self.frame.len() >= ATTRS + 6 {
            args.lay(&mut self.frame[ARGS..ARGS + 5]);
            rets.lay(&mut self.frame[RETS..RETS + 5]);
            self.attrs.lay(&mut self.frame[ATTRS..ATTRS + 6]);
        }
    }

    /// Does something to the frame. `variadic`: operands may be more or fewer; `lenient`: of any type,
    /// and attributes may be absent.
    pub(crate) fn mutate(&mut self, rng: &mut Rng, variadic: bool, lenient: bool) -> Wanted {
        let refused = match rng.below(10) {
            0..=4 => self.operand(rng, lenient),
            5 => self.count(rng) && !variadic,
            6..=8 if !self.attrs.types.is_empty() && self.frame.len() > ATTRS + 2 => {
                self.attrs.mutate(rng, &mut self.frame[ATTRS + 2]) && !lenient
            }
            _ => self.head(rng),
        };
        if refused { Wanted::Error } else { Wanted::Life }
    }

    fn operand(&mut self, rng: &mut Rng, any: bool) -> bool {
        let side = rng.below(2);
        // Behind the first element of the first argument, where that has more than one of four bytes and lies somewhere.
        let within = self.operands[0].entries.first().and_then(Option::as_ref);
        let within =
            within.filter(|buffer| buffer.len() == 6 && buffer[2] as u32 == F32 && buffer[3] != 0);
        let many = self.operands[0].dims.first().is_some_and(|dims| {
            dims.iter().all(|dim| (1..64).contains(dim)) && dims.iter().product::<i64>() > 1
        });
        let within = within
            .filter(|_| side == 1 && many)
            .map(|buffer| buffer[3] + 4);
        let list = &mut self.operands[side];
        if list.types.is_empty() {
            return false;
        }
        let i = rng.below(list.types.len());
        let dims = &mut list.dims[i];
        let Some(buffer) = list.entries[i].as_mut().filter(|buffer| buffer.len() == 6) else {
            return false;
        };
        let count: i64 = dims.iter().map(|dim| (*dim).clamp(0, 64)).product();
        // Elements of the widest type, at an address that is aligned or not.
        let mut elsewhere = |buffer: &mut Vec<u64>, offset: u64| {
            self.elements
                .push(vec![0; (2 * count as usize).max(64) + 2]);
            buffer[3] = address(&self.elements[self.elements.len() - 1]) + offset;
        };
        match rng.below(10) {
            0 => {
                list.types[i] = rng.other(1, 6);
                true
            }
            1 => {
                list.entries[i] = None;
                true
            }
            2 => {
                let size = rng.pick(&[0, 8, 16, 40, 47, 56, u64::MAX]);
                buffer[0] = size;
                if size < 48 {
                    *buffer = exactly(
                        std::mem::take(buffer),
                        (size as usize).next_multiple_of(8).max(8),
                    );
                }
                size < 48
            }
            3 => {
                buffer[2] = rng.other(buffer[2] as u32, 40).into();
                elsewhere(buffer, 0);
                !any
            }
            4 => {
                buffer[3] = 0;
                count > 0 && buffer[2] as u32 != TOKEN
            }
            5 => {
                elsewhere(buffer, 1);
                count > 0 && !any && buffer[2] as u32 == F32
            }
            6 if within.is_some() => {
                buffer[3] = within.unwrap_or_default();
                count > 0 && buffer[2] as u32 == F32
            }
            6 | 9 => {
                let rank = buffer[4].cast_signed();
                let new = rng.pick(&[-1, i64::MIN, 0, rank.saturating_sub(1)]);
                buffer[4] = new.cast_unsigned();
                new < 0
            }
            7 => {
                let any = !dims.is_empty();
                buffer[5] = 0;
                any
            }
            _ => {
                if dims.is_empty() {
                    return false;
                }
                let wide = !any && !matches!(buffer[2] as u32, 1 | 2 | 6);
                let k = rng.below(dims.len());
                dims[k] = rng.pick(&[
                    -1,
                    i64::MIN,
                    i64::MAX,
                    i64::MAX - 1,
                    0,
                    dims[k].saturating_sub(1),
                ]);
                dims[k] < 0 || (dims[k] > 1 << 60 && wide)
            }
        }
    }

    /// More or fewer operands.
    fn count(&mut self, rng: &mut Rng) -> bool {
        let side = rng.below(2);
        let list = &mut self.operands[side];
        let at = [ARGS, RETS][side];
        if list.types.is_empty() || self.frame.len() <= at + 2 {
            return false;
        }
        match rng.below(3) {
            0 => {
                self.frame[at + 2] = rng.pick(&[list.types.len() as u64 - 1, u64::MAX, 1 << 63]);
                true
            }
            1 => {
                let last = list.types.len() - 1;
                list.types.push(list.types[last]);
                list.dims.push(list.dims[last].clone());
                list.entries.push(list.entries[last].clone());
                self.frame[at + 2] = list.types.len() as u64;
                true
            }
            _ => {
                self.frame[at] = rng.pick(&[0, 8, 39, 48, u64::MAX]);
                false
            }
        }
    }

    /// The frame's own fields.
    fn head(&mut self, rng: &mut Rng) -> bool {
        match rng.below(5) {
            0 if self.frame.len() > 4 => {
                self.frame[4] = rng.other(self.frame[4] as u32, 8).into();
                true
            }
            1 if self.frame.len() > 20 => {
                let size = rng.pick(&[0, 8, 16, 24, 31, 32, 40, 100, 160, 167, u64::MAX]);
                self.lay();
                self.frame[0] = size;
                if size < 168 {
                    let bytes = (size as usize).next_multiple_of(8).max(8);
                    self.frame = exactly(std::mem::take(&mut self.frame), bytes);
                }
                (32..168).contains(&size)
            }
            2 if self.frame.len() > 2 => {
                self.frame[2] = 0;
                false
            }
            3 if self.frame.len() > 3 => {
                self.frame[3] = 0;
                false
            }
            // A link of a kind that nobody knows: struct_size, type, next.
            _ if self.frame.len() > 1 => {
                self.elements.push(vec![24, 1000 + rng.next() % 9, 0]);
                self.frame[1] = address(&self.elements[self.elements.len() - 1]);
                false
            }
            _ => false,
        }
    }
}
