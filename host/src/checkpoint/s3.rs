//! Checkpoint files in a bucket of an S3-compatible object store. Calls wait, as the trait says; one thread of the process
//! drives their requests, so no task of a job ever runs a future. Every request has a bound: in bytes, in time, in retries.

use super::CheckpointStorage;
use super::filesystem::check_name;
use crate::env;
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetResult, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    RetryConfig,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// No request carries more bytes: what is longer goes in parts, each repeated by itself when it fails.
const PART_BYTES: usize = 8 << 20;

/// So many parts of a file are under way at once.
const PARTS_AT_ONCE: usize = 4;

/// A connection must stand after this time,
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// and a request be answered after this, which asks for 280 KB/s of a line that carries a part.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What failed is not tried again after this time,
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// nor more often than this; pauses grow from the first of these to the second, with some chance in them.
const RETRIES_MAX: usize = 50;
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A call that has not come to its end after all that is given up.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A creation whose answer was lost, and whose file is not there, is tried again so often.
const CREATIONS_MAX: usize = 3;

/// The files of one job in a bucket.
#[derive(Debug)]
pub struct S3Storage {
    store: AmazonS3,
    driver: Handle,
    bucket: String,
    /// What stands before each name, without slashes at its ends.
    root: String,
}

impl S3Storage {
    /// Keeps files in `bucket` under `root`. `settings` are environment variables: of those that begin with `AWS_`, the
    /// ones that object stores know are heeded. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// The settings contradict each other, or would send credentials over a network in clear.
    pub fn open(
        bucket: &str,
        root: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> anyhow::Result<Self> {
        let driver = driver()?;
        let client = ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
        let backoff = BackoffConfig { init_backoff: PAUSES.0, max_backoff: PAUSES.1, ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_TIMEOUT };
        let mut builder = AmazonS3Builder::new()
            .with_client_options(client)
            .with_retry(retry)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Not every store knows the request that deletes many.
            .with_disable_bulk_delete(true);
        for (name, value) in settings {
            if name.starts_with("AWS_")
                && !value.is_empty()
                && let Ok(known) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>()
            {
                builder = builder.with_config(known, value);
            }
        }
        let setting = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
        let endpoint = setting(AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(AmazonS3ConfigKey::Endpoint));
        if let Some(address) = endpoint.as_deref().and_then(|endpoint| endpoint.strip_prefix("http://")) {
            let allow_http = AmazonS3ConfigKey::Client(object_store::ClientConfigKey::AllowHttp);
            let allowed = setting(allow_http).is_some_and(|value| value == "true");
            if !allowed && !is_loopback(address) {
                bail!(
                    "AWS_ENDPOINT_URL is `http://{address}`: what is sent there can be read on the way; use https, or set \
                     AWS_ALLOW_HTTP=true"
                );
            }
            builder = builder.with_allow_http(true);
        }
        let store = builder.with_bucket_name(bucket).build().map_err(|error| {
            anyhow!("{error}").context("the object store's settings, in environment variables AWS_…, do not fit")
        })?;
        Ok(Self { store, driver, bucket: bucket.to_string(), root: root.trim_matches('/').to_string() })
    }

    fn url(&self, name: &str) -> String {
        let parts = [self.bucket.as_str(), self.root.as_str(), name];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("s3://{}", parts.join("/"))
    }

    fn key(&self, name: &str) -> anyhow::Result<Key> {
        check_name(name)?;
        self.key_of(name)
    }

    fn key_of(&self, name: &str) -> anyhow::Result<Key> {
        let whole = format!("{}/{name}", self.root);
        Key::parse(&whole).with_context(|| format!("`{}` is no name of an object", self.url(name)))
    }

    fn name_of(&self, key: &str) -> Option<String> {
        let below = key.strip_prefix(&self.root)?;
        if self.root.is_empty() { Some(below.to_string()) } else { below.strip_prefix('/').map(str::to_string) }
    }

    /// Has the thread work on a request.
    fn begin<T: Send + 'static>(&self, request: impl Future<Output = Result<T, Error>> + Send + 'static) -> Pending<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.driver.spawn(async move {
            let ended = match tokio::time::timeout(CALL_TIMEOUT, request).await {
                Ok(ended) => ended,
                Err(_) => Err(generic(format!("no answer within {CALL_TIMEOUT:?}"))),
            };
            // Nobody waits for a part of an upload that failed elsewhere.
            let _ = answer.send(ended);
        });
        Pending(answered)
    }

    fn put(&self, key: &Key, content: Bytes, mode: PutMode) -> Result<(), Error> {
        let (store, key) = (self.store.clone(), key.clone());
        self.begin(async move { store.put_opts(&key, PutPayload::from_bytes(content), mode.into()).await.map(|_| ()) })
            .wait()
    }

    /// Uploads what `next` gives until it gives nothing: in one request, or in parts.
    fn upload(&self, name: &str, mut next: impl FnMut() -> anyhow::Result<Bytes>) -> anyhow::Result<()> {
        let key = self.key(name)?;
        let first = next()?;
        if first.len() < PART_BYTES {
            return self.put(&key, first, PutMode::Overwrite).map_err(|error| self.failed("written", name, &error));
        }
        let store = self.store.clone();
        let begun = self.begin(async move { store.put_multipart(&key).await }).wait();
        let mut upload = begun.map_err(|error| self.failed("written", name, &error))?;
        match self.upload_parts(name, &mut *upload, first, next) {
            Ok(()) => {
                let ended = self.begin(async move { upload.complete().await }).wait();
                ended.map(|_| ()).map_err(|error| self.failed("written", name, &error))
            }
            Err(error) => {
                // What cannot be taken back now lies in the store until its life-cycle rule removes it.
                if let Err(left) = self.begin(async move { upload.abort().await }).wait() {
                    tracing::warn!(file = name, "parts of an unfinished upload are left in the store: {}", told(&left));
                }
                Err(error)
            }
        }
    }

    fn upload_parts(
        &self,
        name: &str,
        upload: &mut dyn MultipartUpload,
        first: Bytes,
        mut next: impl FnMut() -> anyhow::Result<Bytes>,
    ) -> anyhow::Result<()> {
        let failed = |error: Error| self.failed("written", name, &error);
        let mut part = first;
        let mut under_way = VecDeque::new();
        while !part.is_empty() {
            if under_way.len() == PARTS_AT_ONCE {
                under_way.pop_front().map_or(Ok(()), Pending::wait).map_err(failed)?;
            }
            under_way.push_back(self.begin(upload.put_part(PutPayload::from_bytes(part))));
            part = next()?;
        }
        under_way.into_iter().try_for_each(Pending::wait).map_err(failed)
    }

    /// Hands a file's content to `take`, piece by piece, in order; false if there is no such file.
    fn download(&self, name: &str, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<bool> {
        let key = self.key(name)?;
        let failed = |error: Error| self.failed("read", name, &error);
        let (store, whole) = (self.store.clone(), key.clone());
        let begun = self.begin(async move { short(store.get(&whole).await?).await }).wait();
        let size = match begun {
            Ok(Answer::Whole(content)) => return take(&content).map(|()| true),
            Ok(Answer::Longer(size)) => size,
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let mut ranges = (0..size).step_by(PART_BYTES).map(|from| from..size.min(from + PART_BYTES as u64));
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < PARTS_AT_ONCE
                && let Some(range) = ranges.next()
            {
                let (store, key) = (self.store.clone(), key.clone());
                under_way.push_back(self.begin(async move { store.get_range(&key, range).await }));
            }
            let Some(part) = under_way.pop_front() else { return Ok(true) };
            take(&part.wait().map_err(failed)?)?;
        }
    }

    fn failed(&self, what: &str, name: &str, error: &Error) -> anyhow::Error {
        anyhow!(told(error)).context(format!("`{}` cannot be {what}: {}", self.url(name), advice(error)))
    }

    /// Whether `content` is there, which only its creator can have put there; none if nothing is.
    fn holds(&self, name: &str, content: &[u8]) -> anyhow::Result<Option<bool>> {
        Ok(self.read(name)?.map(|found| found == content))
    }
}

impl CheckpointStorage for S3Storage {
    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut parts = content.chunks(PART_BYTES);
        self.upload(name, || Ok(parts.next().map(Bytes::copy_from_slice).unwrap_or_default()))
    }

    fn create(&self, name: &str, content: &[u8]) -> anyhow::Result<bool> {
        let key = self.key(name)?;
        let mut tried = 0;
        loop {
            tried += 1;
            let Err(refused) = self.put(&key, Bytes::copy_from_slice(content), PutMode::Create) else {
                return Ok(true);
            };
            // The store may have taken the file although its answer was lost or is that of a repetition. So the file tells.
            let unknown = || format!("`{}` may or may not have been created ({})", self.url(name), told(&refused));
            match self.holds(name, content).with_context(unknown)? {
                Some(ours) => return Ok(ours),
                // Two creations at once: some stores refuse both.
                None if matches!(refused, Error::AlreadyExists { .. }) && tried < CREATIONS_MAX => {}
                None => return Err(self.failed("created", name, &refused)),
            }
        }
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let mut content = vec![];
        let there = self.download(name, |piece| {
            content.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(there.then_some(content))
    }

    fn write_file(&self, name: &str, from: &Path) -> anyhow::Result<()> {
        let failed = || format!("`{}` cannot be read", from.display());
        let mut file = File::open(from).with_context(failed)?;
        self.upload(name, || {
            let mut part = Vec::with_capacity(PART_BYTES);
            (&mut file).take(PART_BYTES as u64).read_to_end(&mut part).with_context(failed)?;
            Ok(part.into())
        })
    }

    fn read_to_file(&self, name: &str, to: &Path) -> anyhow::Result<bool> {
        let mut file = None;
        self.download(name, |piece| {
            let failed = || format!("`{}` cannot be written", to.display());
            let file = match &mut file {
                Some(file) => file,
                None => file.insert(File::create(to).with_context(failed)?),
            };
            file.write_all(piece).with_context(failed)
        })
    }

    fn list(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut names = vec![];
        let mut folders = vec![self.key_of(folder)?];
        while let Some(folder) = folders.pop() {
            let store = self.store.clone();
            let listed = self.begin(async move { store.list_with_delimiter(Some(&folder)).await }).wait();
            let listed = listed.map_err(|error| self.failed("listed", prefix, &error))?;
            folders.extend(listed.common_prefixes);
            let keys = listed.objects.iter().map(|object| object.location.as_ref());
            names.extend(keys.filter_map(|key| self.name_of(key)));
        }
        names.retain(|name| name.starts_with(prefix));
        names.sort();
        Ok(names)
    }

    fn delete(&self, name: &str) -> anyhow::Result<()> {
        let (store, key) = (self.store.clone(), self.key(name)?);
        match self.begin(async move { store.delete(&key).await }).wait() {
            Err(error) if !is_absent(&error) => Err(self.failed("deleted", name, &error)),
            _ => Ok(()),
        }
    }
}

/// A request under way.
struct Pending<T>(Receiver<Result<T, Error>>);

impl<T> Pending<T> {
    fn wait(self) -> Result<T, Error> {
        self.0.recv().unwrap_or_else(|_| Err(generic("the thread that talks to the store is gone".to_string())))
    }
}

/// A file that fits into one answer, or how long it is.
enum Answer {
    Whole(Bytes),
    Longer(u64),
}

async fn short(got: GetResult) -> Result<Answer, Error> {
    let size = got.meta.size;
    if size > PART_BYTES as u64 { Ok(Answer::Longer(size)) } else { Ok(Answer::Whole(got.bytes().await?)) }
}

/// The runtime that drives all requests of the process, on a thread of its own that lives as long.
fn driver() -> anyhow::Result<Handle> {
    static DRIVER: Mutex<Option<Handle>> = Mutex::new(None);
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*driver {
        return Ok(handle.clone());
    }
    // Refused where somebody else has named one before: that serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Blocking threads only look up names.
    let runtime = Builder::new_current_thread().max_blocking_threads(2).enable_all().build();
    let runtime = runtime.context("the thread that talks to object stores cannot be prepared")?;
    let handle = runtime.handle().clone();
    env::spawn("storage", move || runtime.block_on(std::future::pending::<()>()))
        .context("no thread to talk to object stores")?;
    *driver = Some(handle.clone());
    Ok(handle)
}

fn generic(text: String) -> Error {
    Error::Generic { store: "S3", source: text.into() }
}

/// No such object; a bucket that is not there is another matter.
fn is_absent(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !error.to_string().contains("NoSuchBucket")
}

/// The error with its causes, which it tells itself. Of what the store has said only code and message: some repeat the request.
fn told(error: &Error) -> String {
    let text = error.to_string();
    let Some((before, answer)) = text.split_once('<') else { return text };
    let part = |name: &str| Some(answer.split_once(&format!("<{name}>"))?.1.split_once("</")?.0);
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{before}{code}: {message}"),
        _ => before.to_string(),
    }
}

/// What to do about it.
fn advice(error: &Error) -> &'static str {
    // The kind of an error does not tell: a listing that is refused is as general as one that is not answered.
    let text = error.to_string();
    let says = |any: &[&str]| any.iter().any(|part| text.contains(part));
    if says(&["NoSuchBucket"]) {
        "create the bucket, or correct the name"
    } else if says(&["status code: 401", "status code: 403"]) {
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION must be right, and allow it (docs/storage.md says what is needed)"
    } else if says(&["169.254."]) {
        // There a machine on AWS is told its credentials.
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    } else {
        "see that the store runs, and that AWS_ENDPOINT_URL and AWS_REGION lead to it"
    }
}

fn is_loopback(address: &str) -> bool {
    let authority = address.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(settings: &[(&str, &str)]) -> anyhow::Result<S3Storage> {
        let settings = settings.iter().map(|&(name, value)| (name.to_string(), value.to_string()));
        S3Storage::open("bucket", "team/job", settings)
    }

    #[test]
    fn credentials_are_not_sent_in_clear_over_a_network() {
        assert!(open(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:7070")]).is_ok());
        assert!(open(&[("AWS_ENDPOINT_URL", "http://[::1]:7070/")]).is_ok());
        assert!(open(&[("AWS_ENDPOINT_URL", "http://localhost")]).is_ok());
        assert!(open(&[("AWS_ENDPOINT_URL", "http://store.example"), ("AWS_ALLOW_HTTP", "true")]).is_ok());
        let error = open(&[("AWS_ENDPOINT_URL", "http://127.0.0.1.example:7070")]).unwrap_err();
        assert!(format!("{error:#}").contains("AWS_ALLOW_HTTP"), "{error:#}");
    }

    #[test]
    fn half_of_a_pair_of_keys_is_refused_without_saying_it() {
        let error = open(&[("AWS_SECRET_ACCESS_KEY", "hush")]).unwrap_err();
        let told = format!("{error:#}");
        assert!(told.contains("AccessKeyId") && !told.contains("hush"), "{told}");
    }

    #[test]
    fn of_a_refusal_only_code_and_message_are_told() {
        let answer =
            "403 Forbidden: <?xml?>\n<Error><Code>AccessDenied</Code><Message>No.</Message><Key>hush</Key></Error>";
        assert_eq!(told(&generic(answer.into())), "Generic S3 error: 403 Forbidden: AccessDenied: No.");
        assert_eq!(told(&generic("gone".into())), "Generic S3 error: gone");
    }

    #[test]
    fn an_object_is_named_by_its_whole_url() {
        let storage = open(&[]).unwrap();
        assert_eq!(storage.url("manifests/1"), "s3://bucket/team/job/manifests/1");
        assert_eq!(storage.key("manifests/1").unwrap().as_ref(), "team/job/manifests/1");
        assert!(storage.key("../1").is_err());
    }
}
