//! Lines of one program mostly name the same members in the same order. What stands between the values of the last line is
//! expected of the next: where it is there, only the values are left to scan; where not, the whole line is scanned.
//!
//! Nothing goes unchecked. What is expected was checked when it was learnt, and equal bytes are as good; values are scanned as ever.

use super::json_scan::{Malformed, Node, Scanner};
use super::rows::Cell;

/// Members of a line that is learnt; longer ones are scanned.
const MEMBERS_MAX: usize = 64;

/// Lines unlike the one before them until learning pauses, and lines it then pauses for.
const PATIENCE: u32 = 8;
const PAUSE: u32 = 64;

/// What the last line looked like: the members of one object, without white space.
#[derive(Debug, Default)]
pub(super) struct Layout {
    members: Vec<Member>,
    /// Lines unlike the layout since the last that was like it.
    unlike: u32,
}

/// What stands before a value: a brace or a comma, and the name with its colon.
#[derive(Debug)]
pub(super) struct Member {
    text: Box<[u8]>,
    /// The first eight bytes, and which bits of them count.
    head: (u64, u64),
    /// The last eight bytes, of a text with more than eight.
    tail: u64,
    /// The node of the name, if some pointer leads there.
    node: Option<usize>,
}

impl Member {
    pub(super) fn new(text: &[u8], node: Option<usize>) -> Self {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let first = &text[..text.len().min(8)];
        let counts = if first.len() == 8 { u64::MAX } else { (1 << (first.len() * 8)) - 1 };
        let tail = if text.len() > 8 { word(&text[text.len() - 8..]) } else { 0 };
        Self { text: text.into(), head: (word(first), counts), tail, node }
    }

    /// Whether `bytes` begin with the text.
    #[inline(always)]
    fn begins(&self, bytes: &[u8]) -> bool {
        let length = self.text.len();
        let Some(first) = bytes.first_chunk() else { return bytes.starts_with(&self.text) };
        if (u64::from_le_bytes(*first) ^ self.head.0) & self.head.1 != 0 {
            return false;
        }
        if length <= 8 {
            return true;
        }
        let last = bytes.get(length - 8..length).and_then(<[u8]>::first_chunk);
        last.is_some_and(|last| u64::from_le_bytes(*last) == self.tail)
            && (length <= 16 || bytes[8..length - 8] == self.text[8..length - 8])
    }
}

impl Layout {
    /// Scans a line into `cells`, all absent at first.
    ///
    /// # Errors
    /// It is not JSON.
    #[inline]
    pub(super) fn scan<'a>(&mut self, text: &'a str, tree: &[Node], cells: &mut [Cell<'a>]) -> Result<(), Malformed> {
        if !self.members.is_empty() {
            if Scanner::new(text, tree, cells).members(&self.members) {
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
            if Scanner::new(text, tree, &mut []).learn(&mut self.members, MEMBERS_MAX).is_none() {
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
    fn members(mut self, members: &[Member]) -> bool {
        self.depth = 1; // the object's own level
        for member in members {
            if !member.begins(&self.bytes[self.at..]) {
                return false;
            }
            self.at += member.text.len();
            let value = match member.node {
                Some(node) => self.wanted(node),
                None => self.ignored(),
            };
            if value.is_err() {
                return false;
            }
        }
        let is_whole = self.bytes[self.at..] == *b"}";
        if is_whole {
            self.note(0, Cell::Object);
        }
        is_whole
    }

    /// Notes the members of a text that is JSON; none if it is no object, or has white space around names.
    fn learn(mut self, members: &mut Vec<Member>, at_most: usize) -> Option<()> {
        (self.peek() == b'{').then_some(())?;
        loop {
            let from = self.at;
            self.at += 1;
            (self.peek() == b'"' && members.len() < at_most).then_some(())?;
            let name = self.at;
            let escaped = self.string().ok()?;
            let node = self.node_of(0, (name, self.at), escaped);
            (self.peek() == b':').then_some(())?;
            self.at += 1;
            members.push(Member::new(&self.bytes[from..self.at], node));
            self.ignored().ok()?;
            match self.peek() {
                b',' => {}
                b'}' if self.at + 1 == self.bytes.len() => return Some(()),
                _ => return None,
            }
        }
    }
}
