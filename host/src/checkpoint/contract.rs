//! What every checkpoint storage must pass. Called by the tests of each; those of stores that need a server lie in `tests/`.

use super::CheckpointStorage;
use anyhow::ensure;

/// Longer than what a storage may send at once, and no multiple of it.
const LONG_BYTES: usize = (40 << 20) + 17;

/// Checks an empty storage against the contract of [`CheckpointStorage`].
///
/// # Errors
/// What it does not keep to.
pub fn check_checkpoint_storage(storage: &dyn CheckpointStorage) -> anyhow::Result<()> {
    ensure!(storage.read("state/a-1")?.is_none(), "a file nobody wrote is none");
    storage.write("state/a-1", b"one")?;
    storage.write("state/a-2", b"")?;
    storage.write("states", b"elsewhere")?;
    storage.write("state/a-1", b"one again")?;
    ensure!(storage.read("state/a-1")?.as_deref() == Some(b"one again"), "a file is replaced");
    ensure!(storage.read("state/a-2")?.as_deref() == Some(b""), "an empty file is a file");
    ensure!(storage.list("state/")? == ["state/a-1", "state/a-2"], "a prefix tells what is listed, sorted");
    ensure!(storage.list("state/a-2")? == ["state/a-2"], "a prefix may end within a name");
    ensure!(storage.list("")? == ["state/a-1", "state/a-2", "states"], "the empty prefix lists all");
    ensure!(storage.list("none/")?.is_empty(), "no name, no listing");

    ensure!(storage.create("decided/7", b"first")?, "a free name is taken");
    ensure!(!storage.create("decided/7", b"second")?, "a taken name is not taken again");
    ensure!(!storage.create("state/a-1", b"")?, "a written name is taken");
    ensure!(storage.read("decided/7")?.as_deref() == Some(b"first"), "the first content stays");

    let long: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 251) as u8).collect();
    storage.write("state/long", &long)?;
    ensure!(storage.read("state/long")?.as_deref() == Some(&*long), "a long file is read as it was written");
    storage.write("state/long", b"short")?;
    ensure!(storage.read("state/long")?.as_deref() == Some(b"short"), "nothing of a replaced file is left");
    storage.delete("state/long")?;

    storage.delete("state/a-1")?;
    storage.delete("state/a-1")?;
    ensure!(storage.read("state/a-1")?.is_none(), "a deleted file is gone");
    ensure!(storage.create("state/a-1", b"new")?, "a deleted name is free");

    check_files(storage)?;
    for name in
        ["", "/etc/passwd", "../outside", "state/../../outside", "state//a", "state/", ".hidden", "state/.", "a\\b"]
    {
        ensure!(storage.write(name, b"").is_err(), "`{name}` is refused");
        ensure!(storage.create(name, b"").is_err(), "`{name}` is refused");
        ensure!(storage.read(name).is_err() && storage.delete(name).is_err(), "`{name}` is refused");
    }
    check_race(storage)
}

/// Files go in and out whole, and are no more tied to those they came from.
fn check_files(storage: &dyn CheckpointStorage) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    ensure!(!storage.read_to_file("state/b", &to)? && !to.exists(), "a file nobody wrote is none");
    std::fs::write(&from, b"from a file")?;
    storage.write("state/b", b"before")?;
    storage.write_file("state/b", &from)?;
    std::fs::remove_file(&from)?;
    ensure!(storage.read("state/b")?.as_deref() == Some(b"from a file"), "a file's content is stored");
    ensure!(storage.read_to_file("state/b", &to)?, "it is there");
    storage.write("state/b", b"after")?;
    ensure!(std::fs::read(&to)? == b"from a file", "what was read stays, whatever is written later");
    let long: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 241) as u8).collect();
    std::fs::write(&from, &long)?;
    storage.write_file("state/b", &from)?;
    std::fs::remove_file(&from)?;
    let whole = folder.path().join("whole");
    ensure!(storage.read_to_file("state/b", &whole)? && std::fs::read(&whole)? == long, "a long file too");
    storage.delete("state/b")?;
    ensure!(storage.write_file("state/c", &from).is_err(), "a file that is not there cannot be stored");
    ensure!(
        storage.write_file("../c", &to).is_err() && storage.read_to_file("../c", &from).is_err(),
        "names are checked"
    );
    Ok(())
}

/// Of many callers that create one name, one succeeds, and its content is what is there.
fn check_race(storage: &dyn CheckpointStorage) -> anyhow::Result<()> {
    for round in 0..16 {
        let name = format!("race/{round}");
        let winners: Vec<String> = std::thread::scope(|scope| {
            let callers = (0..4).map(|caller| {
                let (name, content) = (&name, format!("caller {caller}"));
                scope.spawn(move || storage.create(name, content.as_bytes()).map(|won| won.then_some(content)))
            });
            let callers: Vec<_> = callers.collect();
            let ended = callers.into_iter().map(|caller| caller.join().expect("no caller panics"));
            ended.filter_map(Result::transpose).collect::<anyhow::Result<_>>()
        })?;
        ensure!(winners.len() == 1, "one of {winners:?} may create `{name}`");
        ensure!(storage.read(&name)?.as_deref() == Some(winners[0].as_bytes()), "the winner's content stays");
    }
    Ok(())
}
