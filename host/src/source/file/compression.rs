//! Plain, gzip or zstd: told by the name, else by the first bytes, and undone while reading.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How a file is compressed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// By the name, else by the first bytes.
    pub(super) fn of(path: &Path, file: &File) -> std::io::Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            // An empty file is no gzip file, but has nothing to lose either.
            _ if file.metadata()?.len() == 0 => return Ok(Self::None),
            Some("gz") => return Ok(Self::Gzip),
            Some("zst" | "zstd") => return Ok(Self::Zstd),
            _ => {}
        }
        let mut magic = [0; 4];
        let read = file.read_at(&mut magic, 0)?;
        Ok(match magic[..read] {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            _ => Self::None,
        })
    }

    pub(super) fn decompress(self, file: File) -> std::io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(file),
            Self::Gzip => {
                Box::new(flate2::read::MultiGzDecoder::new(std::io::BufReader::with_capacity(64 << 10, file)))
            }
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
        })
    }

    /// The bytes from `byte` on; the inner error is the size of a file that has less.
    pub(super) fn skip(self, mut file: File, byte: u64) -> std::io::Result<Result<Box<dyn Read + Send>, u64>> {
        if let Self::None = self {
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(byte))?;
            return if size < byte { Ok(Err(size)) } else { Ok(Ok(Box::new(file))) };
        }
        let mut input = self.decompress(file)?;
        let skipped = std::io::copy(&mut (&mut input).take(byte), &mut std::io::sink())?;
        if skipped < byte { Ok(Err(skipped)) } else { Ok(Ok(input)) }
    }
}
