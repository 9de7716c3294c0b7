//! One file: opened when its turn comes, decompressed, read from its position on, and looked after while it is followed.

use super::compression::Compression;
use super::head::{HEAD_BYTES, Head};
use super::reader::{Blocks, Filled, Place, Reader};
use super::{OnBadRecord, Settings};
use crate::dead_letter::DeadLetter;
use crate::source::format::{Decoded, Decoder};
use crate::source::{self, Limit, Projection, Records};
use anyhow::{Context, bail, ensure};
use dataflow::record::Origin;
use dataflow::restart::Permanent;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Blocks one poll reads in search of a record, so that a record of many gigabytes does not hold the task up.
const POLL_BLOCKS_MAX: usize = 32;

const IS_OPEN: &str = "a turn opens the file first, and closing it ends the turn";

/// Where reading goes on, as checkpoints keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Bytes before the next record; of a compressed file, decompressed.
    byte: u64,
    /// Its line, from 1.
    line: u64,
    /// Records read so far.
    records: u64,
    /// What its first bytes are; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<Head>,
}

/// What all files of a share have in common.
pub(super) struct Shared {
    pub(super) node: String,
    pub(super) settings: Arc<Settings>,
    pub(super) projection: Projection,
}

/// One file.
pub(super) struct Partition {
    pub(super) name: Arc<str>,
    path: PathBuf,
    position: Position,
    pub(super) finished: bool,
    open: Option<Open>,
    /// Its first bytes, as far as they were read.
    head: Vec<u8>,
    /// What is to be told of the file that had its name before.
    replaced: Option<DeadLetter>,
}

struct Open {
    reader: Reader,
    decoder: Box<dyn Decoder>,
    /// Device and inode.
    identity: (u64, u64),
}

/// What one turn of a file gave.
pub(super) enum Turn {
    Records(Box<Records>),
    /// Still in the middle of something; ask again at once.
    Busy,
    /// Followed, and nothing new.
    Nothing,
    Finished,
}

impl Partition {
    pub(super) fn new(name: String, path: PathBuf) -> Self {
        Self {
            name: name.into(),
            path,
            position: Position::START,
            finished: false,
            open: None,
            head: vec![],
            replaced: None,
        }
    }

    /// Goes on from where a checkpoint says.
    ///
    /// # Errors
    /// That is no position of a file.
    pub(super) fn go_on_from(&mut self, from: &source::Partition) -> anyhow::Result<()> {
        self.position = Position::deserialize(&from.next)
            .with_context(|| format!("the checkpoint's position of `{}` is not one of a file source", self.name))?;
        self.finished = from.finished;
        Ok(())
    }

    pub(super) fn as_partition(&self) -> source::Partition {
        let next = serde_json::to_value(self.position).expect("numbers are always JSON");
        source::Partition { name: self.name.clone(), next, finished: self.finished }
    }

    /// Reads the next records.
    ///
    /// # Errors
    /// The file cannot be opened, its position is gone, or something cannot be read and that is to fail the job.
    pub(super) fn turn(&mut self, shared: &Shared, limit: Limit, blocks: &mut Blocks) -> anyhow::Result<Turn> {
        if self.finished {
            return Ok(Turn::Finished);
        }
        if let Err(lost) = self.open(shared)? {
            return self.lose(shared, lost);
        }
        if let Some(letter) = self.replaced.take() {
            return self.tell(shared, letter);
        }
        for _ in 0..POLL_BLOCKS_MAX {
            if let Some(turn) = self.decode_next(shared, limit)? {
                return Ok(turn);
            }
            if let Some(turn) = self.read_on(shared, blocks)? {
                return Ok(turn);
            }
        }
        Ok(Turn::Busy)
    }

    /// Decodes what is at hand; none if that is no whole record, or a header.
    fn decode_next(&mut self, shared: &Shared, limit: Limit) -> anyhow::Result<Option<Turn>> {
        let Open { reader, decoder, .. } = self.open.as_mut().expect(IS_OPEN);
        let before = reader.place();
        let is_header = decoder.wants_header();
        let mut framed = reader.frame(if is_header { Limit { records: 1, ..limit } } else { limit });
        let after = reader.place();
        let more = usize::try_from(after.byte).unwrap_or(usize::MAX).saturating_sub(self.head.len());
        if self.head.len() < HEAD_BYTES
            && let Some(read) = reader.behind(more)
        {
            self.head.extend(read.iter().take(HEAD_BYTES - self.head.len()));
            self.position.head = Head::of(&self.head);
        }
        self.position = Position { byte: after.byte, line: after.line, ..self.position };
        if is_header && let Some(letter) = framed.dead.first() {
            let reason = format!("its header cannot be read: {}", letter.reason);
            return self.lose(shared, reason).map(Some);
        }
        if framed.spans.is_empty() && framed.dead.is_empty() {
            return Ok(None);
        }
        let decoded = match decoder.decode(reader.slab(), &framed.spans) {
            Ok(decoded) => decoded,
            Err(error) => return self.lose(shared, format!("{error:#}")).map(Some),
        };
        if is_header {
            return Ok(None);
        }
        framed.dead.extend(decoded.dead);
        let decoded = Decoded { dead: framed.dead, ..decoded };
        Ok(Some(Turn::Records(self.records(decoded, after.byte - before.byte, shared)?)))
    }

    /// Reads another block; none if there is something to decode then.
    fn read_on(&mut self, shared: &Shared, blocks: &mut Blocks) -> anyhow::Result<Option<Turn>> {
        let reader = &mut self.open.as_mut().expect(IS_OPEN).reader;
        if reader.is_at_end() {
            return Ok(Some(self.finish()));
        }
        match reader.fill(blocks) {
            Ok(Filled::More) => Ok(None),
            Ok(Filled::End) if !shared.settings.follow => {
                reader.end();
                Ok(None)
            }
            Ok(Filled::End) if self.look_after()? == Fate::Stays => Ok(Some(Turn::Nothing)),
            Ok(Filled::End) => {
                // Something may have been written between the look at its end and its being renamed.
                let reader = &mut self.open.as_mut().expect(IS_OPEN).reader;
                if reader.fill(blocks).is_ok_and(|filled| filled == Filled::End) {
                    reader.end();
                }
                Ok(None)
            }
            Err(error) => self.lose(shared, format!("reading it failed: {error}")).map(Some),
        }
    }

    fn records(&mut self, decoded: Decoded, bytes: u64, shared: &Shared) -> anyhow::Result<Box<Records>> {
        let Decoded { mut batch, arrivals, places, mut dead } = decoded;
        for letter in &mut dead {
            letter.node.clone_from(&shared.node);
            letter.partition = Some(self.name.to_string());
        }
        if let Some(letter) = dead.first()
            && shared.settings.on_bad_record == OnBadRecord::Fail
        {
            let line = letter.place.unwrap_or(0);
            bail!(Permanent(format!("`{}`, line {line}: {}", self.path.display(), letter.reason)));
        }
        if batch.columns.is_empty() {
            batch.columns = shared.projection.schema.columns(0);
        }
        self.position.records += batch.len() as u64;
        batch.origin = Some(Origin { partition: self.name.clone(), places });
        Ok(Box::new(Records { partition: self.name.clone(), batch, arrivals, dead, bytes }))
    }

    /// The file cannot be read on: it is finished, with a dead letter that says so.
    fn lose(&mut self, shared: &Shared, reason: String) -> anyhow::Result<Turn> {
        let letter = DeadLetter {
            place: Some(self.position.line),
            reason: format!("the rest of the file is lost: {reason}"),
            ..DeadLetter::default()
        };
        let told = self.tell(shared, letter)?;
        self.finish();
        Ok(told)
    }

    /// A dead letter alone.
    fn tell(&mut self, shared: &Shared, letter: DeadLetter) -> anyhow::Result<Turn> {
        let decoded = Decoded { dead: vec![letter], ..Decoded::default() };
        Ok(Turn::Records(self.records(decoded, 0, shared)?))
    }

    fn finish(&mut self) -> Turn {
        self.finished = true;
        self.open = None;
        Turn::Finished
    }

    /// Opens the file at its position, if it is not open. The inner error is a loss that costs only this file.
    ///
    /// # Errors
    /// What is likely to hit every file, or would repeat or skip records: no permission, a position that is gone.
    pub(super) fn open(&mut self, shared: &Shared) -> anyhow::Result<Result<(), String>> {
        if self.open.is_some() {
            return Ok(Ok(()));
        }
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Err("it was listed, but was gone when its turn came".into()));
            }
            Err(error) => return Err(error).with_context(|| format!("opening `{}`", self.path.display())),
        };
        let metadata = file.metadata().with_context(|| format!("looking at `{}`", self.path.display()))?;
        let compression = match Compression::of(&self.path, &file) {
            Ok(compression) => compression,
            Err(error) => return Ok(Err(format!("reading it failed: {error}"))),
        };
        ensure!(
            !shared.settings.follow || matches!(compression, Compression::None),
            "`{}` is compressed: such a file is complete and cannot be followed; leave it out of `path` or set `follow: false`",
            self.path.display()
        );
        if let Some(head) = self.position.head {
            match self.is_the_same(compression, head) {
                Ok(true) => {}
                Ok(false) => self.begin_anew(shared)?,
                Err(error) => return Ok(Err(format!("reading it failed: {error}"))),
            }
        }
        let settings = &shared.settings;
        let mut decoder = settings.decoder().decoder(&shared.projection);
        if decoder.wants_header()
            && self.position.byte > 0
            && let Err(lost) = self.read_header(compression, settings, &mut *decoder)
        {
            return Ok(Err(lost));
        }
        let input = match compression.skip(file, self.position.byte) {
            Ok(Ok(input)) => input,
            Ok(Err(size)) => bail!(
                "the checkpoint says that `{}` was read up to byte {}, but it has only {size}: it was replaced or cut. Put \
                 the old file back, or start over with `--fresh`",
                self.path.display(),
                self.position.byte
            ),
            Err(error) => return Ok(Err(format!("reading it failed: {error}"))),
        };
        let place = Place { byte: self.position.byte, line: self.position.line };
        let reader = Reader::new(input, settings.format, settings.max_record_bytes, place);
        self.open = Some(Open { reader, decoder, identity: (metadata.dev(), metadata.ino()) });
        Ok(Ok(()))
    }

    /// Whether the file begins as the checkpoint says.
    fn is_the_same(&mut self, compression: Compression, head: Head) -> std::io::Result<bool> {
        let mut found = vec![];
        compression.decompress(File::open(&self.path)?)?.take(head.bytes as u64).read_to_end(&mut found)?;
        let is_the_same = Head::of(&found) == Some(head);
        self.head = if is_the_same { found } else { vec![] };
        Ok(is_the_same)
    }

    /// Another file has the name of the one that was read before.
    fn begin_anew(&mut self, shared: &Shared) -> anyhow::Result<()> {
        ensure!(
            shared.settings.follow,
            "`{}` is not the file that the checkpoint knows, and that was read up to byte {}: it begins otherwise. Put the old file back, \
             or start over with `--fresh`",
            self.path.display(),
            self.position.byte
        );
        self.replaced = Some(DeadLetter {
            place: Some(self.position.line),
            reason: "another file has got this name while the job did not run: it is read from its start, and what the one before got \
                     from this line on is not read"
                .into(),
            ..DeadLetter::default()
        });
        self.position = Position::START;
        Ok(())
    }

    /// Reads the header of a file whose reading goes on further down.
    fn read_header(
        &self,
        compression: Compression,
        settings: &Settings,
        decoder: &mut dyn Decoder,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("reading its header failed: {error}");
        let input = compression.decompress(File::open(&self.path).map_err(failed)?).map_err(failed)?;
        let mut reader = Reader::new(input, settings.format, settings.max_record_bytes, Position::START.into());
        while decoder.wants_header() {
            let framed = reader.frame(Limit { records: 1, bytes: usize::MAX });
            if let Some(letter) = framed.dead.first() {
                return Err(format!("its header cannot be read: {}", letter.reason));
            }
            decoder.decode(reader.slab(), &framed.spans).map_err(|error| format!("{error:#}"))?;
            if framed.spans.is_empty() && reader.fill(&mut Blocks::default()).map_err(failed)? == Filled::End {
                return Err("its header is gone".into());
            }
        }
        Ok(())
    }

    /// What has become of a followed file whose end is reached.
    fn look_after(&mut self) -> anyhow::Result<Fate> {
        let open = self.open.as_ref().expect("only an open file is looked after");
        let metadata = match self.path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Fate::Ends),
            Err(error) => return Err(error).with_context(|| format!("looking at `{}`", self.path.display())),
        };
        if (metadata.dev(), metadata.ino()) != open.identity {
            return Ok(Fate::Ends);
        }
        let read_to = open.reader.read_to();
        ensure!(
            metadata.len() >= read_to,
            "`{}` was cut to {} bytes while it was followed, and had been read up to byte {read_to}: what to read next \
             cannot be known. Rotate logs by renaming them to a name outside `path`, or start over with `--fresh`",
            self.path.display(),
            metadata.len()
        );
        Ok(Fate::Stays)
    }
}

#[derive(PartialEq, Eq)]
enum Fate {
    Stays,
    /// It is gone, or another file has its name.
    Ends,
}

impl Position {
    const START: Self = Self { byte: 0, line: 1, records: 0, head: None };
}

impl From<Place> for Position {
    fn from(place: Place) -> Self {
        Self { byte: place.byte, line: place.line, ..Self::START }
    }
}

impl From<Position> for Place {
    fn from(position: Position) -> Self {
        Self { byte: position.byte, line: position.line }
    }
}
