//! What counting rides per city and minute costs at least: loops over the file without batches between threads, event time,
//! state or checkpoints. One decodes as a job does, the other only looks for the two fields.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use dataflow::record::{Field, Schema, ValueType, Values};
use hashbrown::HashMap;
use memchr::{memchr, memchr_iter, memmem};
use millstream::source::Projection;
use millstream::source::format::{Decoder, DecoderSettings, Format, Span, TimeField, TimeFormat};
use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

/// Bytes read at once.
const BLOCK: usize = 512 << 10;

const MINUTE_MS: i64 = 60_000;

/// Rides by minute, 8 bytes, and city.
#[derive(Default)]
struct Counts {
    rides: HashMap<Vec<u8>, u64>,
    key: Vec<u8>,
}

impl Counts {
    #[inline]
    fn add(&mut self, city: &[u8], time_ms: i64) {
        self.key.clear();
        self.key.extend_from_slice(&time_ms.div_euclid(MINUTE_MS).to_le_bytes());
        self.key.extend_from_slice(city);
        match self.rides.get_mut(&self.key) {
            Some(rides) => *rides += 1,
            None => drop(self.rides.insert(self.key.clone(), 1)),
        }
    }

    fn write(&self, to: &Path) -> Result<()> {
        let mut file = BufWriter::new(File::create(to).with_context(|| format!("making `{}`", to.display()))?);
        for (key, rides) in &self.rides {
            let (minute, city) = key.split_first_chunk().context("a key begins with its minute")?;
            let start = i64::from_le_bytes(*minute) * MINUTE_MS;
            let city = std::str::from_utf8(city)?;
            writeln!(file, r#"{{"key":"{city}","window_start":{start},"count":{rides}}}"#)?;
        }
        Ok(file.flush()?)
    }
}

/// Counts the rides of the file `from` in the way `kind`, and writes the rows to `to`.
///
/// # Errors
/// The file is not one of rides, or there is no such way.
pub(crate) fn run(kind: &str, from: &Path, to: &Path) -> Result<()> {
    let mut counts = Counts::default();
    match kind {
        "decode" => {
            let mut decoder = decoder();
            blocks(from, |block| decode(&mut *decoder, block, &mut counts))?;
        }
        "search" => blocks(from, |block| search(&block, &mut counts).map(|()| block))?,
        _ => bail!("no loop `{kind}`"),
    }
    counts.write(to)
}

/// Calls `each` with whole lines, many at once.
fn blocks(from: &Path, mut each: impl FnMut(Vec<u8>) -> Result<Vec<u8>>) -> Result<()> {
    let mut file = File::open(from).with_context(|| format!("opening `{}`", from.display()))?;
    let (mut block, mut rest): (Vec<u8>, Vec<u8>) = (vec![], vec![]);
    loop {
        block.clear();
        block.extend_from_slice(&rest);
        if (&mut file).take(BLOCK as u64).read_to_end(&mut block)? == 0 {
            return Ok(());
        }
        let end = memchr::memrchr(b'\n', &block).map_or(0, |end| end + 1);
        rest.clear();
        rest.extend_from_slice(&block[end..]);
        block.truncate(end);
        block = each(block)?;
    }
}

fn decoder() -> Box<dyn Decoder> {
    let event_time = Some(TimeField { field: "/requested_at".into(), format: TimeFormat::UnixMs });
    let settings = DecoderSettings { format: Format::Json, event_time, arrival: None };
    let schema = Schema { fields: vec![Field::new("/city", ValueType::Text)] };
    settings.decoder(&Projection { schema, whole_values: false })
}

fn decode(decoder: &mut dyn Decoder, block: Vec<u8>, counts: &mut Counts) -> Result<Vec<u8>> {
    let (mut from, mut spans) = (0, Vec::with_capacity(block.len() / 64));
    for end in memchr_iter(b'\n', &block) {
        spans.push(Span { from, to: end as u32, line: 0 });
        from = end as u32 + 1;
    }
    let block = Bytes::from(block);
    let decoded = decoder.decode(&block, &spans)?;
    let Values::Text(cities) = &decoded.batch.columns[0].values else { bail!("the city is a text") };
    for (city, time) in cities.iter().zip(&decoded.batch.timestamps) {
        counts.add(city, *time);
    }
    drop(decoded);
    Ok(block.into())
}

/// Takes the fields where they are first named, and the rest of the line on trust.
fn search(block: &[u8], counts: &mut Counts) -> Result<()> {
    let (city, time) = (memmem::Finder::new(r#""city":""#), memmem::Finder::new(r#""requested_at":"#));
    let mut rest = block;
    while let Some(end) = memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        let after = |finder: &memmem::Finder<'_>| finder.find(line).map(|at| &line[at + finder.needle().len()..]);
        let (Some(city), Some(time)) = (after(&city), after(&time)) else { bail!("a line that is no ride") };
        let city = &city[..memchr(b'"', city).context("the city ends")?];
        let digits = time.iter().take_while(|byte| byte.is_ascii_digit());
        counts.add(city, digits.fold(0, |number, digit| number * 10 + i64::from(digit - b'0')));
    }
    Ok(())
}
