//! What is refused before anything runs, and what its author is told.

use super::rig::{Rig, engine, hostile, settings};
use dataflow::restart::Permanent;
use millstream::engine::{Engine, EngineSettings, Limits};
use millstream::operator::guest::GuestSettings;
use millstream_tests::guests;
use serde_json::json;
use std::error::Error;

fn refusal(bytes: &[u8]) -> String {
    let error = engine().load(bytes).err().expect("the component is refused");
    let mut reasons = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        reasons.push(error.to_string());
        cause = error.source();
    }
    reasons.join(": ")
}

#[test]
fn a_component_that_imports_wasi_is_refused_by_the_imports_name_and_with_a_hint() {
    let wit = format!(
        "{}\nworld foreign {{ include processor; import wasi:cli/environment@0.2.6; }}\n
        package wasi:cli@0.2.6 {{ interface environment {{ get-arguments: func() -> list<string>; }} }}",
        guests::operator_wit()
    );
    let refusal = refusal(&guests::empty(&wit, "foreign").unwrap());
    assert!(refusal.contains("`wasi:cli/environment@0.2.6`"), "{refusal}");
    assert!(refusal.contains("wasm32-unknown-unknown"), "{refusal}");
}

#[test]
fn a_component_of_another_world_is_refused() {
    let other = guests::empty("package other:thing@1.0.0; world thing { export greet: func() -> string; }", "thing");
    let refusal = refusal(&other.unwrap());
    assert!(refusal.contains("fits neither world") && refusal.contains("exports only `greet`"), "{refusal}");
}

#[test]
fn a_component_of_another_version_is_refused_with_both_versions() {
    let wit = guests::operator_wit().replace("millstream:operator@0.1.0", "millstream:operator@0.9.0");
    let refusal = refusal(&guests::empty(&wit, "processor").unwrap());
    assert!(
        refusal.contains("millstream:operator/processing@0.9.0") && refusal.contains("speaks version 0.1.0"),
        "{refusal}"
    );
}

#[test]
fn a_component_whose_describe_traps_is_refused() {
    let refusal = refusal(&guests::empty(&guests::operator_wit(), "processor").unwrap());
    assert!(refusal.contains("does not describe itself: the guest trapped"), "{refusal}");
}

#[test]
fn what_is_no_component_is_refused_by_what_it_is() {
    assert!(refusal(b"\0asm\x01\0\0\0").contains("a core WebAssembly module"));
    assert!(refusal(b"#!/bin/sh").contains("not WebAssembly"));
    assert!(refusal(b"\0asm\x0d\0\x01\0garbage").contains("the file is"));
}

#[test]
fn a_component_that_is_too_large_is_refused() {
    let small = Engine::new(EngineSettings { component_bytes: 10, instances: 4, ..EngineSettings::default() }).unwrap();
    assert_eq!(small.load(&[0; 11]).err().unwrap().to_string(), "the component has 11 bytes, at most 10 are taken");
}

#[test]
fn the_other_world_is_refused_where_one_is_needed() {
    assert!(hostile().processor().is_ok());
    assert_eq!(
        hostile().aggregator().unwrap_err().to_string(),
        "the component is a processor, an aggregator is needed here"
    );
}

#[test]
fn a_configuration_that_does_not_fit_its_schema_is_refused_by_key() {
    let configured =
        |config| Rig::new(hostile(), GuestSettings { config, ..settings() }).err().map(|error| format!("{error:#}"));
    assert_eq!(configured(json!({ "do": "rows" })), None);
    let wrong = configured(json!({ "do": "dance" })).unwrap();
    assert!(wrong.contains("`config.do`") && wrong.contains("dance"), "{wrong}");
    assert!(configured(json!({ "does": "rows" })).unwrap().contains("does"));
}

#[test]
fn a_guest_that_does_not_open_fails_the_job_with_its_reason() {
    let opened =
        |deed| Rig::new(hostile(), GuestSettings { config: json!({ "do": deed }), ..settings() }).err().unwrap();
    assert!(format!("{:#}", opened("refuse")).contains("does not open: the configuration is not to my taste"));
    assert!(
        format!("{:#}", opened("trap")).contains("the guest of operator `hostile` does not start: the guest trapped")
    );
}

#[test]
fn a_guest_whose_limits_are_too_small_to_start_names_the_limit_and_is_not_tried_again() {
    for memory in [0, 1 << 16] {
        let limits = Limits { memory, ..Limits::default() };
        let error = Rig::new(hostile(), GuestSettings { limits, ..settings() }).err().unwrap();
        assert!(error.is::<Permanent>(), "it would do no better: {error:#}");
        let said = format!("{error:#}");
        assert!(
            said.contains("raise `limits: { memory: … }`") && said.contains(&format!("may have {memory}")),
            "{said}"
        );
    }
}

#[test]
fn a_compiled_component_is_kept_and_a_damaged_one_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = || EngineSettings { cache: Some(folder.path().into()), instances: 4, ..EngineSettings::default() };
    let load = || Engine::new(settings()).unwrap().load(guests::hostile()).unwrap().digest().to_string();
    let digest = load();
    let entry = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    assert!(entry.file_name().unwrap().to_string_lossy().starts_with(&digest));
    let sound = std::fs::read(&entry).unwrap();
    let mut damaged = sound.clone();
    damaged[5000] ^= 1;
    std::fs::write(&entry, &damaged).unwrap();
    assert_eq!(load(), digest);
    assert_eq!(std::fs::read(&entry).unwrap().len(), sound.len());
    assert_ne!(std::fs::read(&entry).unwrap(), damaged, "it was written anew");
    assert_eq!(load(), digest, "from the cache");
}
