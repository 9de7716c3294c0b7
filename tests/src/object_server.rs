//! A real S3 server on this machine: versitygw, which `scripts/s3 build` has compiled. It keeps the objects of a bucket as files in
//! a folder, so tests can look at them.

use millstream::env::WaitPoint;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The bucket that is there.
pub const BUCKET: &str = "millstream";

/// A key that is no secret: the server listens on this machine only.
const ACCESS_KEY: &str = "tests";
const SECRET_KEY: &str = "secret-of-the-tests";

/// The version that scripts/s3 compiles.
const VERSION: &str = "1.8.0";

/// How often, and how many times, a server that was started is asked whether it listens.
const LOOK: (Duration, u32) = (Duration::from_millis(20), 1000);

/// Runs until dropped.
pub struct ObjectServer {
    folder: tempfile::TempDir,
    address: SocketAddr,
    process: Option<Child>,
}

impl ObjectServer {
    /// Starts one with an empty bucket.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("writable");
        // Free now; nobody else on this machine is likely to take it in the next moment.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let mut server = Self { folder, address: free.expect("a free port"), process: None };
        server.resume();
        server
    }

    /// Ends the server at once, as if killed. The objects stay.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().and_then(|()| process.wait()).expect("the server was running");
        }
    }

    /// Starts it again, at the same address.
    pub fn resume(&mut self) {
        let mut command = Command::new(program());
        command.args(["--port", &self.address.to_string(), "--region", "us-east-1", "--quiet", "posix"]);
        command.arg(self.folder.path()).env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = self.process.insert(command.spawn().expect("the S3 server starts"));
        for _ in 0..LOOK.1 {
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            assert!(process.try_wait().expect("it is our child").is_none(), "the S3 server ended as it started");
            WaitPoint::default().wait(Some(LOOK.0));
        }
        panic!("the S3 server does not listen at {}", self.address);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder with the objects of the bucket.
    pub fn bucket(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// The environment variables that lead to it.
    pub fn settings(&self) -> Vec<(String, String)> {
        settings(self.address)
    }
}

/// The same through another address that leads there.
pub fn settings(address: SocketAddr) -> Vec<(String, String)> {
    let endpoint = format!("http://{address}");
    let settings = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("NO_PROXY", "127.0.0.1"),
    ];
    settings.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect()
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where scripts/s3 puts it, or MILLSTREAM_S3_SERVER.
fn program() -> PathBuf {
    let program = std::env::var_os("MILLSTREAM_S3_SERVER").map_or_else(
        || {
            let cache = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
            let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache");
            cache.unwrap_or_else(home).join(format!("millstream/versitygw-{VERSION}/versitygw"))
        },
        PathBuf::from,
    );
    assert!(Path::new(&program).exists(), "no S3 server at `{}`: run scripts/test, which builds it", program.display());
    program
}
