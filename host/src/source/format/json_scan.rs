//! One pass over a JSON text (RFC 8259): checks every byte, notes what stands at the wanted pointers, builds nothing.
//!
//! Why: our own, where a library would be shorter. Taking a text and a number out of 95-byte lines, all checked, best of
//! five rounds on one core of a shared AMD EPYC, built for plain x86-64: this way 69 ns per line; serde_json with a
//! visitor 150; simd-json tape 161, visitor 195; sonic-rs visitor 204, `get_many` 266, lazy iterator 264. So 2.2 times
//! faster than the best library; with that one the whole path could not keep 0.7 of a bare loop. From file to columns a
//! line costs 1.04 times what a bare loop takes that reads the file whole, scans the same way and counts in a hash map
//! (CPU time, 142 ns to 137 with all cores busy). Property tests in `json.rs` hold it to the library's judgement.

use super::rows::Cell;

/// Deepest nesting taken, as serde_json has it.
pub(super) const DEPTH_MAX: u32 = 128;

/// A place some wanted pointer leads to or through.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Where to note what stands here.
    pub(super) cell: Option<usize>,
    /// Names of members, or indexes of an array, and their nodes.
    pub(super) children: Vec<Child>,
}

/// A member of an object, or an element of an array.
#[derive(Debug)]
pub(super) struct Child {
    /// Its name or index.
    pub(super) name: Box<str>,
    /// Its node.
    pub(super) node: usize,
    /// The first bytes of the name, to compare before any loop.
    head: u64,
}

impl Child {
    /// The member `name` leads to `node`.
    pub(super) fn new(name: String, node: usize) -> Self {
        Self { head: head(name.as_bytes(), name.len()), name: name.into(), node }
    }
}

/// The first `length` bytes, at most eight, as one word.
#[inline(always)]
fn head(bytes: &[u8], length: usize) -> u64 {
    match bytes.first_chunk() {
        Some(word) if length < 8 => u64::from_le_bytes(*word) & ((1 << (length * 8)) - 1),
        Some(word) => u64::from_le_bytes(*word),
        None => bytes[..length.min(bytes.len())].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The text is not JSON, or nested too deep.
#[derive(Debug)]
pub(super) struct Malformed;

type Scan<T> = Result<T, Malformed>;

/// Goes over one text.
pub(super) struct Scanner<'a, 't> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) depth: u32,
    pub(super) tree: &'t [Node],
    pub(super) cells: &'t mut [Cell<'a>],
}

impl<'a, 't> Scanner<'a, 't> {
    /// `cells`: one per wanted pointer, all absent.
    #[inline]
    pub(super) fn new(text: &'a str, tree: &'t [Node], cells: &'t mut [Cell<'a>]) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, depth: 0, tree, cells }
    }

    /// The whole text is one value.
    #[inline]
    pub(super) fn record(mut self) -> Scan<()> {
        self.value(0)?;
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(Malformed) }
    }

    /// A value that some pointer leads to or through.
    #[inline]
    pub(super) fn wanted(&mut self, node: usize) -> Scan<()> {
        if !self.tree[node].children.is_empty() {
            // A member that comes twice: what the first one had below it does not count.
            self.forget(node);
        }
        self.value(node)
    }

    #[inline(always)]
    fn value(&mut self, node: usize) -> Scan<()> {
        let first = self.space();
        let from = self.at;
        let cell = match first {
            b'"' => match self.string()? {
                false => Cell::Text(&self.text[from + 1..self.at - 1]),
                true => Cell::Escaped(&self.text[from..self.at]),
            },
            b'-' | b'0'..=b'9' => {
                self.number()?;
                Cell::Number(&self.text[from..self.at])
            }
            b'{' => {
                self.object(Some(node))?;
                Cell::Object
            }
            b'[' => {
                self.array(Some(node))?;
                Cell::Array
            }
            b't' => self.literal("true", Cell::Boolean(true))?,
            b'f' => self.literal("false", Cell::Boolean(false))?,
            b'n' => self.literal("null", Cell::Absent)?,
            _ => return Err(Malformed),
        };
        self.note(node, cell);
        Ok(())
    }

    /// Notes what stands at a node, if somebody asked for it.
    #[inline(always)]
    pub(super) fn note(&mut self, node: usize, cell: Cell<'a>) {
        if let Some(wanted) = self.tree[node].cell {
            self.cells[wanted] = cell;
        }
    }

    /// A value that nobody asked for: checked all the same.
    #[inline(always)]
    pub(super) fn ignored(&mut self) -> Scan<()> {
        match self.space() {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' => self.object(None),
            b'[' => self.array(None),
            b't' => self.literal("true", ()),
            b'f' => self.literal("false", ()),
            b'n' => self.literal("null", ()),
            _ => Err(Malformed),
        }
    }

    fn object(&mut self, node: Option<usize>) -> Scan<()> {
        self.enter()?;
        if self.space() != b'}' {
            loop {
                if self.space() != b'"' {
                    return Err(Malformed);
                }
                let from = self.at;
                let escaped = self.string()?;
                let name_end = self.at;
                if self.space() != b':' {
                    return Err(Malformed);
                }
                self.at += 1;
                let child = node.and_then(|node| self.node_of(node, (from, name_end), escaped));
                match child {
                    Some(child) => self.wanted(child)?,
                    None => self.ignored()?,
                }
                match self.space() {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return Err(Malformed),
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn array(&mut self, node: Option<usize>) -> Scan<()> {
        // Only a node with children has indexes worth counting.
        let node = node.filter(|&node| !self.tree[node].children.is_empty());
        self.enter()?;
        if self.space() != b']' {
            for index in 0usize.. {
                match node.and_then(|node| self.child(node, itoa::Buffer::new().format(index).as_bytes())) {
                    Some(child) => self.wanted(child)?,
                    None => self.ignored()?,
                }
                match self.space() {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => return Err(Malformed),
                }
            }
        }
        self.leave();
        Ok(())
    }

    #[inline]
    fn enter(&mut self) -> Scan<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Malformed) } else { Ok(()) }
    }

    #[inline]
    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// The child of `node` whose name stands from one place to another, in its quotes.
    #[inline(always)]
    pub(super) fn node_of(&self, node: usize, (from, to): (usize, usize), escaped: bool) -> Option<usize> {
        if escaped {
            let name = serde_json::from_str::<String>(&self.text[from..to]).ok()?;
            return self.child(node, name.as_bytes());
        }
        self.member(node, from + 1, to - 1)
    }

    /// The child whose name are the bytes from `from` to `to`.
    #[inline(always)]
    fn member(&self, node: usize, from: usize, to: usize) -> Option<usize> {
        let length = to - from;
        let head = head(&self.bytes[from..], length);
        for child in &self.tree[node].children {
            if child.head == head
                && child.name.len() == length
                && (length <= 8 || child.name.as_bytes()[8..] == self.bytes[from + 8..to])
            {
                return Some(child.node);
            }
        }
        None
    }

    fn child(&self, node: usize, name: &[u8]) -> Option<usize> {
        self.tree[node].children.iter().find(|child| child.name.as_bytes() == name).map(|child| child.node)
    }

    fn forget(&mut self, node: usize) {
        let tree: &'t [Node] = self.tree;
        for child in &tree[node].children {
            if let Some(cell) = tree[child.node].cell {
                self.cells[cell] = Cell::Absent;
            }
            self.forget(child.node);
        }
    }

    /// The byte at hand; 0, which no JSON has outside strings, at the end.
    #[inline(always)]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Goes over white space; the byte behind it.
    #[inline(always)]
    fn space(&mut self) -> u8 {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// Goes over a string from its opening quote on; whether it has escapes.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Scan<bool> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += plain_bytes(&self.bytes[self.at..]);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(Malformed),
            }
        }
    }

    fn escape(&mut self) -> Scan<()> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => 6,
            _ => return Err(Malformed),
        };
        let escape = self.bytes.get(self.at..self.at + length).ok_or(Malformed)?;
        self.at += length;
        if escape[2..].iter().all(u8::is_ascii_hexdigit) { Ok(()) } else { Err(Malformed) }
    }

    #[inline(always)]
    fn number(&mut self) -> Scan<()> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    #[inline(always)]
    fn digits(&mut self) -> Scan<()> {
        let digits = leading_digits(&self.bytes[self.at..]);
        self.at += digits;
        if digits > 0 { Ok(()) } else { Err(Malformed) }
    }

    #[inline]
    fn literal<T>(&mut self, word: &str, value: T) -> Scan<T> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(value)
    }
}

/// How many digits come first: eight at a time in one word.
#[inline(always)]
fn leading_digits(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk() {
        // A digit is now 0 to 9: with 0x76 more, the high bit stays clear.
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'0'));
        let others = (((word & !HIGHS) + ONES * 0x76) | word) & HIGHS;
        if others != 0 {
            return at + (others.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// How many bytes come before the first quote, backslash or control character: eight at a time in one word.
#[inline(always)]
fn plain_bytes(bytes: &[u8]) -> usize {
    // The high bit of a byte that is zero is set, and maybe of some above it: the lowest is always right.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*word);
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let stops = (quote | backslash | control) & HIGHS;
        if stops != 0 {
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let stop = bytes[at..].iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    at + stop.unwrap_or(bytes.len() - at)
}
