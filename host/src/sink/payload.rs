//! What a sink says it has staged, with the version of its own format: stored in the manifest, read back when it applies.

use anyhow::{Context, ensure};
use dataflow::checkpoint::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// `parts` in format `version`.
pub(super) fn write<T: Serialize>(version: u32, parts: &[T]) -> anyhow::Result<Payload> {
    Ok(Payload(json!({ "version": version, "parts": serde_json::to_value(parts)? })))
}

/// The parts; none where nothing was staged.
///
/// # Errors
/// It has another version than `version`, or is no such thing.
pub(super) fn read<T: DeserializeOwned>(version: u32, payload: &Payload) -> anyhow::Result<Vec<T>> {
    let Payload(value) = payload;
    if value.is_null() {
        return Ok(vec![]);
    }
    let found = value.get("version").and_then(Value::as_u64).context("what was staged does not say its version")?;
    ensure!(
        found == u64::from(version),
        "what was staged has format version {found}, this program reads {version}: use the program that wrote it"
    );
    let parts = value.get("parts").cloned().unwrap_or_default();
    serde_json::from_value(parts).context("what was staged does not read as a list of parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_another_version_is_refused() {
        let payload = write(2, &["a", "b"]).unwrap();
        assert_eq!(read::<String>(2, &payload).unwrap(), ["a", "b"]);
        let error = read::<String>(1, &payload).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("reads 1"), "{error}");
        assert_eq!(read::<String>(1, &Payload::default()).unwrap(), Vec::<String>::new());
    }
}
