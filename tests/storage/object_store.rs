//! Checkpoints in an object store: the contract against a real server, answers that are lost, what is refused and how, and a job
//! that loses its machine.

use crate::rig::{Job, files, newest, rides, until};
use millstream::checkpoint::CheckpointStorage;
use millstream::checkpoint::contract::check_checkpoint_storage;
use millstream::checkpoint::s3::S3Storage;
use millstream_tests::object_server::{BUCKET, ObjectServer, settings};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn s3_storage_keeps_the_contract() {
    let server = ObjectServer::start();
    check_checkpoint_storage(&S3Storage::open(BUCKET, "team/rides/checkpoints", server.settings()).unwrap()).unwrap();
    assert!(server.bucket().join("team/rides/checkpoints/states").exists(), "objects are named by their path");
}

#[test]
fn refusals_name_the_object_and_say_what_to_do() {
    let server = ObjectServer::start();
    let said = |bucket: &str, settings: Vec<(String, String)>| {
        let storage = S3Storage::open(bucket, "rides", settings).unwrap();
        let errors = [
            storage.write("state/a", b"x").unwrap_err(),
            storage.create("state/a", b"x").unwrap_err(),
            storage.read("state/a").unwrap_err(),
            storage.list("state/").unwrap_err(),
        ];
        errors.map(|error| format!("{error:#}"))
    };
    for error in said("elsewhere", server.settings()) {
        assert!(error.contains("s3://elsewhere/rides/state") && error.contains("create the bucket"), "{error}");
    }
    let mut wrong = server.settings();
    wrong.iter_mut().filter(|(name, _)| name == "AWS_SECRET_ACCESS_KEY").for_each(|(_, value)| *value = "hush".into());
    for error in said(BUCKET, wrong) {
        assert!(error.contains("AWS_SECRET_ACCESS_KEY and AWS_REGION must be right"), "{error}");
        assert!(!error.contains("hush") && !error.contains("<"), "{error}");
    }
}

/// Passes connections on to a server, but for the answer of the first creation, which it swallows.
fn losing_proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let pass = move |mut client: TcpStream, lost: &AtomicBool| -> std::io::Result<()> {
        let mut request = vec![0; 64 << 10];
        let length = client.read(&mut request)?;
        let mut upstream = TcpStream::connect(server)?;
        upstream.write_all(&request[..length])?;
        let head = String::from_utf8_lossy(&request[..length]).to_lowercase();
        let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
        millstream::env::spawn("requests", move || std::io::copy(&mut from, &mut to))?;
        if head.contains("if-none-match") && !lost.swap(true, Ordering::SeqCst) {
            let answered = upstream.read(&mut request)?;
            assert!(String::from_utf8_lossy(&request[..answered]).contains("200 OK"), "the server has created it");
            return client.shutdown(Shutdown::Both);
        }
        std::io::copy(&mut upstream, &mut client)?;
        client.shutdown(Shutdown::Both)
    };
    millstream::env::spawn("proxy", move || {
        let lost = AtomicBool::new(false);
        for client in listener.incoming().map_while(Result::ok) {
            // What goes wrong with one connection is for its client to see.
            let _ = pass(client, &lost);
        }
    })
    .expect("a thread");
    address
}

#[test]
fn file_whose_creation_was_not_answered_is_known_by_its_content() {
    let server = ObjectServer::start();
    let losing = || S3Storage::open(BUCKET, "rides", settings(losing_proxy(server.address()))).unwrap();
    assert!(losing().create("decisions/1", b"ours").unwrap(), "it is there, and it is ours");
    let direct = S3Storage::open(BUCKET, "rides", server.settings()).unwrap();
    assert!(!direct.create("decisions/1", b"theirs").unwrap());
    assert_eq!(direct.read("decisions/1").unwrap().as_deref(), Some(&b"ours"[..]));
}

#[test]
fn job_that_loses_its_machine_goes_on_from_the_store() {
    let mut server = ObjectServer::start();
    let sinks = "  rows: { input: per-minute, connector: file, path: out }";
    let slow = rides("rate: 4000/s\n    records: 12000", "every: 100ms", sinks);
    let job = Job::new(&slow).with(&["--checkpoint-storage", "s3://millstream/team"]).within(server.settings());
    let checkpoints = server.bucket().join("team/rides/checkpoints");
    let running = job.start();
    until("some checkpoints are decided", || (newest(&checkpoints) >= 3).then_some(()));
    running.kill();
    std::fs::remove_dir_all(job.path(".millstream")).expect("the data directory was there");
    // While the store is away, nothing starts from nothing.
    server.stop();
    let refused = job.run("");
    assert!(!refused.status.success());
    server.resume();
    let said = job.finish();
    assert!(said.contains("goes on from checkpoint"), "{said}");
    let straight = Job::new(&rides("records: 12000", "every: 1s", sinks));
    straight.finish();
    assert_eq!(job.rows("out"), straight.rows("out"));
    let secret = server.settings().into_iter().find(|(name, _)| name == "AWS_SECRET_ACCESS_KEY").expect("it is set").1;
    for (name, bytes) in files(&checkpoints) {
        assert!(!String::from_utf8_lossy(&bytes).contains(&secret), "`{name}` holds the secret key");
    }
    let again = job.finish();
    assert!(again.contains("read to its end by an earlier run"), "{again}");
}
