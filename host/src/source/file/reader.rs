//! Reads one file in blocks and finds its records in them. A block becomes a shared buffer that batches refer to; only
//! the record cut by a block's end is ever copied. A record longer than the bound is passed over, never held.

use super::framing::{self, End, LineFeeds};
use crate::dead_letter::DeadLetter;
use crate::source::Limit;
use crate::source::format::{Format, Span};
use bytes::Bytes;
use memchr::{memchr, memchr_iter};
use std::collections::VecDeque;
use std::io::Read;

/// Bytes read at once: a few thousand records, and small enough to stay in the processor's cache.
const BLOCK_BYTES: usize = 512 << 10;

/// What a dead letter keeps of a record that is too long.
const HEAD_BYTES: usize = 1 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Place of the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes before it, decompressed.
    pub(super) byte: u64,
    /// Its line, from 1.
    pub(super) line: u64,
}

/// Records found, consecutive in `Reader::slab`.
#[derive(Debug, Default)]
pub(super) struct Framed {
    pub(super) spans: Vec<Span>,
    /// Those too long, without node and partition.
    pub(super) dead: Vec<DeadLetter>,
}

/// Whether there was more to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    More,
    End,
}

/// Buffers to read into again once no batch refers to them: fresh memory costs as much as reading the file.
#[derive(Default)]
pub(super) struct Blocks {
    used: VecDeque<Bytes>,
}

impl Blocks {
    /// Most buffers kept; those in use beyond are freed by their last user.
    const KEPT_MAX: usize = 8;

    /// An empty buffer with room for `bytes`: the one used last, which the processor's cache may still hold.
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let free = self.used.iter().rposition(Bytes::is_unique).and_then(|at| self.used.remove(at));
        let mut block = free.and_then(|free| free.try_into_mut().ok()).map(Vec::from).unwrap_or_default();
        block.clear();
        block.reserve(bytes);
        block
    }

    fn keep(&mut self, block: Bytes) {
        if self.used.len() == Self::KEPT_MAX {
            self.used.pop_front();
        }
        self.used.push_back(block);
    }
}

/// Reads one file from some place on.
pub(super) struct Reader {
    input: Box<dyn Read + Send>,
    format: Format,
    record_bytes_max: usize,
    slab: Bytes,
    /// First byte of `slab` that belongs to no record yet.
    at: usize,
    /// Of the next record; while one is passed over, of that one.
    place: Place,
    /// The record being passed over: too long.
    passing: Option<Passing>,
    /// Why nothing can be read behind what is buffered.
    broken: Option<std::io::Error>,
    ended: bool,
}

struct Passing {
    bytes: u64,
    head: Vec<u8>,
}

impl Reader {
    /// `input` gives the bytes from `place` on.
    pub(super) fn new(input: Box<dyn Read + Send>, format: Format, record_bytes_max: usize, place: Place) -> Self {
        Self {
            input,
            format,
            record_bytes_max,
            slab: Bytes::new(),
            at: 0,
            place,
            passing: None,
            broken: None,
            ended: false,
        }
    }

    /// Place of the next record.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Bytes of the file that were read, framed or not.
    pub(super) fn read_to(&self) -> u64 {
        let passed = self.passing.as_ref().map_or(0, |passing| passing.bytes);
        self.place.byte + passed + (self.slab.len() - self.at) as u64
    }

    /// The last `bytes` before the next record, if they are still at hand.
    pub(super) fn behind(&self, bytes: usize) -> Option<&[u8]> {
        let from = self.at.checked_sub(bytes)?;
        Some(&self.slab[from..self.at])
    }

    /// The buffer that the last spans lie in.
    pub(super) fn slab(&self) -> &Bytes {
        &self.slab
    }

    /// Reads on behind what is buffered.
    ///
    /// # Errors
    /// As the file's.
    pub(super) fn fill(&mut self, blocks: &mut Blocks) -> std::io::Result<Filled> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let rest = &self.slab[self.at..];
        let mut block = blocks.take(rest.len() + BLOCK_BYTES);
        block.extend_from_slice(rest);
        let read = match (&mut self.input).take(BLOCK_BYTES as u64).read_to_end(&mut block) {
            Ok(read) => read,
            Err(error) if block.len() == rest.len() => return Err(error),
            // What came before it is good: a compressed file may be cut.
            Err(error) => {
                self.broken = Some(error);
                block.len() - rest.len()
            }
        };
        if read == 0 {
            blocks.keep(block.into());
            return Ok(Filled::End);
        }
        blocks.keep(std::mem::replace(&mut self.slab, block.into()));
        self.at = 0;
        if self.place.byte == 0 && self.passing.is_none() && self.slab.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
            self.place.byte = self.at as u64;
        }
        Ok(Filled::More)
    }

    /// No more bytes will come: what is left is a record without a line end, or one that cannot be read.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether everything was read and framed.
    pub(super) fn is_at_end(&self) -> bool {
        self.ended && self.passing.is_none() && self.at == self.slab.len()
    }

    /// The next records that are complete.
    pub(super) fn frame(&mut self, limit: Limit) -> Framed {
        let mut framed = Framed::default();
        let (from, bytes_max) = (self.at, limit.bytes.max(1));
        self.frame_lines(limit, &mut framed);
        while framed.spans.len() + framed.dead.len() < limit.records && self.at - from < bytes_max {
            if !(self.frame_next(&mut framed) || self.ended && self.frame_last(&mut framed)) {
                break;
            }
        }
        framed
    }

    /// Frames records that are short lines, as most are.
    fn frame_lines(&mut self, limit: Limit, framed: &mut Framed) {
        if self.format == Format::Csv || self.passing.is_some() {
            return;
        }
        let (slab, from, first_line) = (&self.slab[..], self.at, self.place.line);
        let (mut at, mut line) = (from, first_line);
        for end in LineFeeds::new(&slab[from..]).map(|end| from + end) {
            let is_full = framed.spans.len() >= limit.records || at - from >= limit.bytes.max(1);
            if is_full || end - at > self.record_bytes_max {
                break;
            }
            framed.spans.extend(span(self.format, &slab[at..end], at, line));
            (at, line) = (end + 1, line + 1);
        }
        self.at = at;
        self.place = Place { byte: self.place.byte + (at - from) as u64, line };
    }

    /// Frames one record, if its end is at hand. Where a record ends, and whether it is too long, depends on its first
    /// `record_bytes_max + 1` bytes alone, so that a replay judges as the first run did.
    #[inline]
    fn frame_next(&mut self, framed: &mut Framed) -> bool {
        if self.passing.is_some() {
            return self.pass(framed);
        }
        let rest = &self.slab[self.at..];
        let window = &rest[..rest.len().min(self.record_bytes_max + 1)];
        match framing::end(self.format, window) {
            End::At(end) => self.take_record(end, 1, framed),
            _ if rest.len() <= self.record_bytes_max => return false,
            _ if memchr(b'\n', window).is_some() => self.take_unclosed(framed),
            _ => {
                self.passing = Some(Passing { bytes: 0, head: window[..window.len().min(HEAD_BYTES)].to_vec() });
                return self.pass(framed);
            }
        }
        true
    }

    /// What stands behind the last line end, when no more will come.
    fn frame_last(&mut self, framed: &mut Framed) -> bool {
        if let Some(passing) = self.passing.take() {
            self.put_aside(&passing, 0, framed);
            return true;
        }
        let rest = &self.slab[self.at..];
        match framing::end(self.format, rest) {
            _ if rest.is_empty() => return false,
            End::InQuotes => self.take_unclosed(framed),
            End::At(_) | End::Beyond => self.take_record(rest.len(), 0, framed),
        }
        true
    }

    /// The next `length` bytes are a record, `line_end` more its line end.
    #[inline]
    fn take_record(&mut self, length: usize, line_end: usize, framed: &mut Framed) {
        let record = &self.slab[self.at..self.at + length];
        let lines = match self.format {
            Format::Csv => memchr_iter(b'\n', record).count() as u64,
            Format::Json | Format::Lines => 0,
        };
        framed.spans.extend(span(self.format, record, self.at, self.place.line));
        self.at += length + line_end;
        self.place.byte += (length + line_end) as u64;
        self.place.line += lines + line_end as u64;
    }

    /// A quote is open and never closed as far as a record may reach: its first line alone is put aside, so that one stray
    /// quote does not take the rest of the file with it.
    fn take_unclosed(&mut self, framed: &mut Framed) {
        let rest = &self.slab[self.at..];
        let end = memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        let head = &line[..line.len().min(HEAD_BYTES)];
        let reason = format!(
            "a quoted field that begins here does not end in time: neither before the end of the file nor in a record of {} \
             bytes (`max_record_bytes`)",
            self.record_bytes_max
        );
        framed.dead.push(dead(self.place.line, reason, head));
        let taken = end.map_or(rest.len(), |end| end + 1);
        self.at += taken;
        self.place.byte += taken as u64;
        self.place.line += u64::from(end.is_some());
    }

    /// Goes on passing over a record; whether its end was found.
    fn pass(&mut self, framed: &mut Framed) -> bool {
        let Some(mut passing) = self.passing.take() else { return false };
        let rest = &self.slab[self.at..];
        if let Some(end) = memchr(b'\n', rest) {
            passing.bytes += end as u64;
            self.at += end + 1;
            self.put_aside(&passing, 1, framed);
            return true;
        }
        passing.bytes += rest.len() as u64;
        self.at = self.slab.len();
        self.passing = Some(passing);
        false
    }

    fn put_aside(&mut self, passing: &Passing, line_end: u64, framed: &mut Framed) {
        let reason = format!(
            "the record has {} bytes, more than the {} of `max_record_bytes`; only its first bytes are kept",
            passing.bytes, self.record_bytes_max
        );
        framed.dead.push(dead(self.place.line, reason, &passing.head));
        self.place.byte += passing.bytes + line_end;
        self.place.line += line_end;
    }
}

/// The record at `from` without its line end; none if it is blank.
#[inline]
fn span(format: Format, record: &[u8], from: usize, line: u64) -> Option<Span> {
    let text = record.strip_suffix(b"\r").unwrap_or(record);
    let span = Span { from: from as u32, to: (from + text.len()) as u32, line };
    (!framing::is_blank(format, text)).then_some(span)
}

fn dead(line: u64, reason: String, head: &[u8]) -> DeadLetter {
    DeadLetter { place: Some(line), reason, value: Some(head.to_vec()), ..DeadLetter::default() }
}
