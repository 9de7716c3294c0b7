//! Lines of one program mostly name the same members in the same order. What stood between the values of the last line is
//! expected of the next: where it is there, only the values are left to scan; where not, the whole line is scanned.
//!
//! Nothing goes unchecked. What is expected was checked when it was learnt, and equal bytes are as good. The ends of texts and
//! numbers are looked for sixteen bytes at a time, and what is neither plain text nor a plain number is scanned as ever.

use super::json_scan::{Malformed, Node, Scanner};
use super::rows::Cell;
use wide::u8x16;

/// Members of a line that is learnt; longer ones are scanned.
const MEMBERS_MAX: usize = 64;

/// Lines unlike the one before them until learning pauses, and lines it then pauses for.
const PATIENCE: u32 = 8;
const PAUSE: u32 = 64;

/// What the last line looked like: the members of one object, without white space.
#[derive(Debug, Default)]
pub(super) struct Layout {
    members: Vec<Member>,
    /// What stands behind the last value.
    end: Literal,
    /// Lines unlike the layout since the last that was like it.
    unlike: u32,
}

#[derive(Debug)]
struct Member {
    /// A brace or a comma, and the name with its colon.
    name: Box<[u8]>,
    /// The same with the quote of a text before it and the quote of a text behind it.
    before: Literal,
    /// Whether it begins with such a quote.
    closes: bool,
    /// What the value was.
    kind: Kind,
    /// The node of the name, if some pointer leads there.
    node: Option<usize>,
    /// Where to note a text or a number.
    cell: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Number,
    Other,
}

/// Bytes to compare with, the first and the last sixteen in one go.
#[derive(Debug, Default)]
struct Literal {
    bytes: Box<[u8]>,
    /// The first ones, and which bits of them count.
    head: (u128, u128),
    /// The last ones, where there are more.
    tail: u128,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte));
        let first = &bytes[..bytes.len().min(16)];
        let counts = if first.len() == 16 { u128::MAX } else { (1 << (first.len() * 8)) - 1 };
        let tail = if bytes.len() > 16 { word(&bytes[bytes.len() - 16..]) } else { 0 };
        Self { bytes: bytes.into(), head: (word(first), counts), tail }
    }

    /// Whether `bytes` begin with it.
    #[inline(always)]
    fn begins(&self, bytes: &[u8]) -> bool {
        let length = self.bytes.len();
        let Some(first) = bytes.first_chunk() else { return bytes.starts_with(&self.bytes) };
        if (u128::from_le_bytes(*first) ^ self.head.0) & self.head.1 != 0 {
            return false;
        }
        if length <= 16 {
            return true;
        }
        let last = bytes.get(length - 16..length).and_then(<[u8]>::first_chunk);
        last.is_some_and(|last| u128::from_le_bytes(*last) == self.tail)
            && (length <= 32 || bytes[16..length - 16] == self.bytes[16..length - 16])
    }
}

impl Layout {
    /// Scans a line into `cells`, all absent at first. `ahead` is the line and what happens to lie behind it, which is looked at
    /// and never believed.
    ///
    /// # Errors
    /// It is not JSON.
    #[inline]
    pub(super) fn scan<'a>(
        &mut self,
        text: &'a str,
        ahead: &'a [u8],
        tree: &[Node],
        cells: &mut [Cell<'a>],
    ) -> Result<(), Malformed> {
        if !self.members.is_empty() {
            if Scanner::new(text, tree, cells).follow(self, ahead) {
                self.unlike = 0;
                return Ok(());
            }
            cells.fill(Cell::Absent);
        }
        self.scan_unlike(text, tree, cells)
    }

    fn scan_unlike<'a>(&mut self, text: &'a str, tree: &[Node], cells: &mut [Cell<'a>]) -> Result<(), Malformed> {
        Scanner::new(text, tree, cells).record()?;
        if self.unlike < PATIENCE || self.unlike.is_multiple_of(PAUSE) {
            self.members.clear();
            if Scanner::new(text, tree, &mut []).learn(self).is_none() {
                self.members.clear();
            }
        }
        self.unlike = self.unlike.wrapping_add(1);
        Ok(())
    }
}

impl<'a> Scanner<'a, '_> {
    /// Whether the text is an object with these members, between them nothing else.
    #[inline]
    fn follow(mut self, layout: &Layout, ahead: &'a [u8]) -> bool {
        self.depth = 1; // the object's own level
        // Where it is, and where the name of the member under way begins.
        let (mut at, mut name) = (0, 0);
        for (index, member) in layout.members.iter().enumerate() {
            if !ahead.get(at..).is_some_and(|rest| member.before.begins(rest)) {
                return self.retrace(layout, index.saturating_sub(1), name);
            }
            name = at + usize::from(member.closes);
            at += member.before.bytes.len();
            let end = match member.kind {
                Kind::Text => end_of_text(ahead, at),
                Kind::Number => end_of_number(ahead, at),
                Kind::Other => self.end_of_value(member, at),
            };
            let Some(end) = end else { return self.retrace(layout, index, name) };
            if let Some(cell) = member.cell {
                let Some(value) = self.text.get(at..end) else { return false };
                self.cells[cell] = if member.kind == Kind::Text { Cell::Text(value) } else { Cell::Number(value) };
            }
            at = end;
        }
        let ends = ahead.get(at..).is_some_and(|rest| layout.end.begins(rest));
        if !ends || at + layout.end.bytes.len() != self.bytes.len() {
            return self.retrace(layout, layout.members.len() - 1, name);
        }
        self.note(0, Cell::Object);
        true
    }

    /// The same from the name at `at` on, of member `index`, with values of any kind.
    #[cold]
    fn retrace(mut self, layout: &Layout, index: usize, mut at: usize) -> bool {
        for member in &layout.members[index..] {
            if !self.bytes.get(at..).is_some_and(|rest| rest.starts_with(&member.name)) {
                return false;
            }
            let Some(end) = self.end_of_value(member, at + member.name.len()) else { return false };
            at = end;
        }
        let is_whole = self.bytes.get(at..) == Some(b"}");
        if is_whole {
            self.note(0, Cell::Object);
        }
        is_whole
    }

    /// Where a member's value ends that begins at `at`, noted whatever it is; none if it is no value.
    fn end_of_value(&mut self, member: &Member, at: usize) -> Option<usize> {
        // What lies behind the line may have looked like its members.
        (at <= self.bytes.len()).then_some(())?;
        self.at = at;
        match member.node {
            Some(node) => self.wanted(node).ok()?,
            None => self.ignored().ok()?,
        }
        Some(self.at)
    }

    /// Notes the members of a text that is JSON; none if it is no object, or has white space around names.
    fn learn(mut self, layout: &mut Layout) -> Option<()> {
        (self.peek() == b'{').then_some(())?;
        // Of the value before.
        let mut quote = 0;
        loop {
            let from = self.at;
            self.at += 1;
            (self.peek() == b'"' && layout.members.len() < MEMBERS_MAX).then_some(())?;
            let name = self.at;
            let escaped = self.string().ok()?;
            let node = self.node_of(0, (name, self.at), escaped);
            (self.peek() == b':').then_some(())?;
            self.at += 1;
            let kind = match self.peek() {
                _ if node.is_some_and(|node| !self.tree[node].children.is_empty()) => Kind::Other,
                b'"' => Kind::Text,
                b'-' | b'0'..=b'9' => Kind::Number,
                _ => Kind::Other,
            };
            let closes = quote == 1;
            let before = from - quote..self.at + usize::from(kind == Kind::Text);
            quote = usize::from(kind == Kind::Text);
            layout.members.push(Member {
                name: self.bytes[from..self.at].into(),
                before: Literal::new(&self.bytes[before]),
                closes,
                kind,
                node,
                cell: node.and_then(|node| self.tree[node].cell).filter(|_| kind != Kind::Other),
            });
            self.ignored().ok()?;
            match self.peek() {
                b',' => {}
                b'}' if self.at + 1 == self.bytes.len() => {
                    layout.end = Literal::new(&self.bytes[self.at - quote..]);
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

/// Where a text may end that began before `at`: at a quote, a backslash or a control character. None near the end of `ahead`.
#[inline(always)]
fn end_of_text(ahead: &[u8], at: usize) -> Option<usize> {
    first(ahead, at, |bytes| {
        let control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
        control | bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'))
    })
}

/// Where a number without an exponent ends; none if it is not written so, or near the end of `ahead`.
#[inline(always)]
fn end_of_number(ahead: &[u8], at: usize) -> Option<usize> {
    let end_of_digits = |at| {
        let end = first(ahead, at, |bytes| {
            let digits = bytes - u8x16::splat(b'0');
            !digits.min(u8x16::splat(9)).simd_eq(digits)
        })?;
        (end > at).then_some(end)
    };
    let begin = at + usize::from(*ahead.get(at)? == b'-');
    let end = end_of_digits(begin)?;
    if ahead[begin] == b'0' && end > begin + 1 {
        return None;
    }
    if ahead[end] == b'.' { end_of_digits(end + 1) } else { Some(end) }
}

/// The first byte from `at` on for which `stops` is true in all bits.
#[inline(always)]
fn first(bytes: &[u8], at: usize, stops: impl Fn(u8x16) -> u8x16 + Copy) -> Option<usize> {
    match stops(u8x16::new(*bytes.get(at..)?.first_chunk()?)).to_bitmask() {
        0 => first_beyond(bytes, at + 16, stops),
        found => Some(at + found.trailing_zeros() as usize),
    }
}

/// The same for the few that are longer: apart, so that it costs the others nothing.
#[inline(never)]
fn first_beyond(bytes: &[u8], mut at: usize, stops: impl Fn(u8x16) -> u8x16) -> Option<usize> {
    loop {
        let found = stops(u8x16::new(*bytes.get(at..)?.first_chunk()?)).to_bitmask();
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += 16;
    }
}
