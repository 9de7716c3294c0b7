//! Compiled components on disk, by content digest and engine. A damaged or foreign entry counts as missing.
//!
//! ```text
//! file   <digest>-<engine hash>.cwasm
//! bytes  magic 8 · xxh3-128 of the rest 16 · artefact
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const MAGIC: &[u8; 8] = b"MSCWASM1";
const HEADER: usize = MAGIC.len() + 16;

/// A directory of artefacts that only this program writes.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    directory: PathBuf,
    engine: u64,
}

impl Cache {
    pub(super) fn new(directory: PathBuf, engine: &wasmtime::Engine) -> Self {
        let mut hasher = Xxh3::new();
        std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
        Self { directory, engine: hasher.digest() }
    }

    /// The artefact of the component with this digest, if there is a sound one.
    pub(super) fn load(&self, engine: &wasmtime::Engine, digest: &str) -> Option<wasmtime::component::Component> {
        let path = self.path(digest);
        let file = std::fs::read(&path).ok()?;
        let Some(artefact) = verified(&file) else {
            tracing::warn!(path = %path.display(), "compiled component is damaged, compiling it again");
            return None;
        };
        // Safety: `deserialize` must be given only what `Component::serialize` made. The directory is written by this program
        // alone, the entry was written whole (renamed into place) and its checksum was verified above, its name and wasmtime's
        // own header bind it to this engine's version and settings.
        #[expect(
            unsafe_code,
            reason = "loading compiled code is unsafe by nature; the reasons it is sound stand above"
        )]
        let component = unsafe { wasmtime::component::Component::deserialize(engine, artefact) };
        match component {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled component does not load, compiling it again");
                None
            }
        }
    }

    /// Keeps an artefact. Failing costs the next start some time, no more.
    pub(super) fn store(&self, digest: &str, component: &wasmtime::component::Component) {
        let path = self.path(digest);
        if let Err(error) =
            component.serialize().map_err(anyhow::Error::from).and_then(|artefact| self.write(&path, &artefact))
        {
            tracing::warn!(path = %path.display(), error = %format!("{error:#}"), "compiled component could not be kept");
        }
    }

    fn write(&self, path: &Path, artefact: &[u8]) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(MAGIC)?;
        file.write_all(&xxh3_128(artefact).to_le_bytes())?;
        file.write_all(artefact)?;
        file.persist(path)?;
        Ok(())
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.directory.join(format!("{digest}-{:016x}.cwasm", self.engine))
    }
}

fn verified(file: &[u8]) -> Option<&[u8]> {
    let (header, artefact) = file.split_at_checked(HEADER)?;
    let (magic, checksum) = header.split_at(MAGIC.len());
    (magic == MAGIC && checksum == xxh3_128(artefact).to_le_bytes()).then_some(artefact)
}
