//! Where a record ends. A line end, except inside the quotes of a CSV field.

use crate::source::format::Format;
use memchr::{memchr, memchr2};
use wide::u8x16;

/// Where the first record of some bytes ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At the line feed at this index.
    At(usize),
    /// Not in these bytes.
    Beyond,
    /// Not in these bytes, which end inside an open quote.
    InQuotes,
}

/// Where the record that begins `bytes` ends.
#[inline]
pub(super) fn end(format: Format, bytes: &[u8]) -> End {
    match format {
        Format::Json | Format::Lines => memchr(b'\n', bytes).map_or(End::Beyond, End::At),
        Format::Csv => csv_end(bytes),
    }
}

/// The line feeds of some bytes, in order.
pub(super) struct LineFeeds<'a> {
    bytes: &'a [u8],
    /// Where the block of 64 begins that is looked at, and those of its line feeds that are left.
    block: usize,
    left: u64,
}

impl<'a> LineFeeds<'a> {
    /// Why our own: one call a line is as dear as what it finds. This looks at 64 bytes at a time, wherever the lines end.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, block: 0, left: in_block(bytes) }
    }
}

impl Iterator for LineFeeds<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.left == 0 {
            self.block += BLOCK;
            self.left = in_block(self.bytes.get(self.block..)?);
        }
        let at = self.block + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(at)
    }
}

const BLOCK: usize = 64;

/// A bit for each of the first 64 bytes that is a line feed.
#[inline(always)]
fn in_block(bytes: &[u8]) -> u64 {
    let Some((blocks, _)) = bytes.first_chunk::<BLOCK>().map(|block| block.as_chunks::<16>()) else {
        return bytes.iter().enumerate().fold(0, |left, (at, byte)| left | u64::from(*byte == b'\n') << at);
    };
    let feeds = |part: &[u8; 16]| u64::from(u8x16::new(*part).simd_eq(u8x16::splat(b'\n')).to_bitmask());
    blocks.iter().rev().fold(0, |left, part| left << 16 | feeds(part))
}

/// Whether a record holds nothing, and is passed over.
#[inline]
pub(super) fn is_blank(format: Format, record: &[u8]) -> bool {
    match format {
        Format::Json => {
            record.first().is_none_or(|byte| *byte <= b' ') && record.iter().all(|byte| b" \t\r".contains(byte))
        }
        Format::Csv | Format::Lines => record.is_empty(),
    }
}

/// A quote opens only at the start of a field; elsewhere it is a character like any other, as csv-core has it.
fn csv_end(bytes: &[u8]) -> End {
    let mut at = 0;
    loop {
        match memchr2(b'\n', b'"', &bytes[at..]) {
            None => return End::Beyond,
            Some(found) if bytes[at + found] == b'\n' => return End::At(at + found),
            Some(found) => at += found,
        }
        let opens = at == 0 || bytes[at - 1] == b',';
        at += 1;
        if opens {
            match closing_quote(&bytes[at..]) {
                Some(closing) => at += closing + 1,
                None => return End::InQuotes,
            }
        }
    }
}

fn closing_quote(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr(b'"', &bytes[at..])?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_feeds_are_found_wherever_they_stand() {
        for length in [0, 1, 63, 64, 65, 200] {
            for every in [1, 2, 7, 64, 300] {
                let bytes: Vec<u8> = (0..length).map(|at| if at % every == every - 1 { b'\n' } else { b'x' }).collect();
                let expected: Vec<usize> = (0..length).filter(|at| bytes[*at] == b'\n').collect();
                assert_eq!(LineFeeds::new(&bytes).collect::<Vec<_>>(), expected, "{length} bytes, every {every}");
            }
        }
    }

    #[test]
    fn line_end_in_quotes_ends_no_csv_record() {
        let cases: [(&[u8], End); 9] = [
            (b"a,b\nc", End::At(3)),
            (b"a,\"b\nc\"\nd", End::At(7)),
            (b"\"a\"\"\n\",b\n", End::At(8)),
            (b"a,5\" pipe\nb", End::At(9)),
            (b"\"a\"b\"\nc", End::At(5)),
            (b"a,b", End::Beyond),
            (b"a,\"b\nc", End::InQuotes),
            (b"\"\"\n", End::At(2)),
            (b"\"a\"\"", End::InQuotes),
        ];
        for (bytes, expected) in cases {
            assert_eq!(csv_end(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
