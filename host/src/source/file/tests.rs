//! Tests of the file source: order, positions, packed files, files that grow, change or vanish.

use super::*;
use crate::source::contract;
use crate::source::format::{Format, TimeField, TimeFormat};
use crate::source::{Limit, Partition, Polled, Projection, Records};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

fn settings(path: impl AsRef<Path>, format: Format) -> Settings {
    let field = if format == Format::Lines { "" } else { "/t" };
    Settings {
        path: path.as_ref().display().to_string(),
        folder: path.as_ref().parent().map(Path::to_path_buf),
        format,
        follow: false,
        max_record_bytes: RECORD_BYTES_MAX_DEFAULT,
        event_time: Some(TimeField { field: field.into(), format: TimeFormat::UnixMs }),
        arrival: None,
        on_bad_record: OnBadRecord::DeadLetter,
    }
}

fn open(settings: &Settings, positions: &[Partition]) -> anyhow::Result<Box<dyn Source>> {
    let projection = Projection::default();
    let share = Share { task: 0, parallelism: 1, positions, projection: &projection };
    Factory::new("rides", settings.clone())?.open(share)
}

fn poll(source: &mut dyn Source) -> anyhow::Result<Polled> {
    source.poll(Limit { records: 4096, bytes: 1 << 20 })
}

/// Until the end, or until a followed source has nothing.
fn drain(source: &mut dyn Source) -> anyhow::Result<Vec<Records>> {
    let mut all = vec![];
    loop {
        match poll(source)? {
            Polled::Records(records) => all.push(*records),
            Polled::Partitions => {}
            Polled::Nothing(after) if after.is_zero() => {}
            Polled::Nothing(_) | Polled::Finished => return Ok(all),
        }
    }
}

fn times(read: &[Records]) -> Vec<i64> {
    read.iter().flat_map(|records| records.batch.timestamps.clone()).collect()
}

fn dead(read: &[Records]) -> Vec<(u64, &str)> {
    read.iter().flat_map(|records| &records.dead).map(|dead| (dead.place.unwrap(), dead.reason.as_str())).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn records(format: Format, from: usize, count: usize) -> String {
    let header = if format == Format::Csv { "\u{feff}t,city,note\r\n" } else { "" };
    let record = |at: usize| match (format, at % 5) {
        (_, 3) => "\n".into(),
        (Format::Json, 4) => "{broken\n".into(),
        (Format::Json, _) => format!("{{\"t\":{at},\"city\":\"c{}\"}}\n", at % 3),
        (Format::Csv, 4) => format!("{at},\"Pu\r\nne\",\"say \"\"hi\"\"\"\r\n"),
        (Format::Csv, 2) => format!("{at},too few\n"),
        (Format::Csv, _) => format!("{at},c{},\n", at % 3),
        (Format::Lines, _) => format!("{at}\n"),
    };
    header.to_string() + (from..from + count).map(record).collect::<String>().trim_end()
}

#[test]
fn packed_file_that_was_cut_gives_all_that_came_before_the_cut() {
    let directory = TempDir::new().unwrap();
    // Numbers without an order that a packer sees: the packed file is not much smaller.
    let lines: String = (0..40_000i64).map(|at| format!("{}\n", at * 7_919 % 1_000_003)).collect();
    let mut whole = gzip(lines.as_bytes());
    whole.truncate(whole.len() - 100);
    let unpacked = {
        let mut unpacked = vec![];
        let cut = std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&whole[..]), &mut unpacked);
        assert!(cut.is_err());
        unpacked.iter().filter(|byte| **byte == b'\n').count()
    };
    fs::write(directory.path().join("a.gz"), &whole).unwrap();
    let mut source = open(&settings(directory.path(), Format::Lines), &[]).unwrap();
    let read = drain(&mut *source).unwrap();
    assert!(unpacked > 30_000);
    assert_eq!(times(&read).len(), unpacked);
    let dead = dead(&read);
    assert_eq!((dead.len(), dead[0].0), (1, unpacked as u64 + 1));
    assert!(dead[0].1.starts_with("the rest of the file is lost: reading it failed"), "{}", dead[0].1);
}

#[test]
fn keeps_the_contract_of_a_source() {
    for format in [Format::Json, Format::Csv, Format::Lines] {
        let directory = TempDir::new().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
        write("a", records(format, 0, 14).as_bytes());
        write("b.gz", &[gzip(records(format, 100, 6).as_bytes()), gzip(b"\n\n")].concat());
        write("c.zst", &zstd::encode_all(records(format, 200, 7).as_bytes(), 1).unwrap());
        // Compressed, and no name that says so.
        write("d", &gzip(records(format, 300, 3).as_bytes()));
        write("empty", b"");
        write("empty.gz", b"");
        write(".hidden", b"{\"t\":1}");
        fs::create_dir(directory.path().join("subdirectory")).unwrap();
        let settings = settings(directory.path(), format);
        contract::check_source(&|| Box::new(Factory::new("rides", settings.clone()).unwrap()));
        assert_eq!(Factory::new("rides", settings.clone()).unwrap().parallelism_max(), 6);
        let pattern = Settings { path: format!("{}/[a-c]*", settings.path), ..settings };
        contract::check_source(&|| Box::new(Factory::new("rides", pattern.clone()).unwrap()));
    }
}

#[test]
fn more_files_than_can_be_open_are_all_read() {
    let directory = TempDir::new().unwrap();
    for at in 0..150 {
        fs::write(directory.path().join(format!("{at:03}")), format!("{{\"t\":{at}}}\n{{\"t\":{at}}}")).unwrap();
    }
    let read = drain(&mut *open(&settings(directory.path(), Format::Json), &[]).unwrap()).unwrap();
    let mut times = times(&read);
    times.sort_unstable();
    assert_eq!(times, (0..300).map(|at| at / 2).collect::<Vec<i64>>());
}

#[test]
fn ten_megabyte_line_is_put_aside_with_its_line_and_first_bytes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    let long = format!("{{\"t\":2,\"note\":\"{}\"}}", "x".repeat(10_000_000));
    for end in ["", "\n", "\r\n{\"t\":3}\n"] {
        fs::write(&path, format!("{{\"t\":1}}\n{long}{end}")).unwrap();
        let read = drain(&mut *open(&settings(&path, Format::Json), &[]).unwrap()).unwrap();
        assert_eq!(times(&read), if end.len() > 2 { vec![1, 3] } else { vec![1] });
        let letter = read.iter().flat_map(|records| &records.dead).next().unwrap();
        assert_eq!(
            (letter.place, letter.node.as_str(), letter.partition.as_deref()),
            (Some(2), "rides", Some("rides.json"))
        );
        assert!(letter.reason.starts_with("the record has 100000"), "{}", letter.reason);
        assert_eq!(letter.value.as_deref(), Some(&long.as_bytes()[..1024]));
    }
}

#[test]
fn stray_quote_in_csv_costs_one_line() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.csv");
    fs::write(&path, "t,note\n1,a\n2,\"open\n3,b\n4,c\n").unwrap();
    let read = drain(&mut *open(&settings(&path, Format::Csv), &[]).unwrap()).unwrap();
    assert_eq!(times(&read), [1, 3, 4]);
    assert_eq!(dead(&read)[0].0, 3);
    // The same where the quote closes, but too late.
    fs::write(&path, format!("t,note\n1,a\n2,\"open\n3,{}\n4,c\"\n", "b".repeat(90))).unwrap();
    let settings = Settings { max_record_bytes: 100, ..settings(&path, Format::Csv) };
    let read = drain(&mut *open(&settings, &[]).unwrap()).unwrap();
    assert_eq!((times(&read), dead(&read)[0].0), (vec![1, 3, 4], 3));
}

#[test]
fn bad_record_fails_the_job_where_it_is_to() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    fs::write(&path, "{\"t\":1}\n{\"t\":\n").unwrap();
    let settings = Settings { on_bad_record: OnBadRecord::Fail, ..settings(&path, Format::Json) };
    let error = drain(&mut *open(&settings, &[]).unwrap()).unwrap_err().to_string();
    assert_eq!(error, format!("`{}`, line 2: not JSON: EOF while parsing a value at byte 5", path.display()));
}

#[test]
fn file_that_vanishes_costs_itself_only() {
    let directory = TempDir::new().unwrap();
    for name in ["a", "b", "c.gz"] {
        fs::write(directory.path().join(name), "{\"t\":1}\n").unwrap();
    }
    let mut source = open(&settings(directory.path(), Format::Json), &[]).unwrap();
    fs::remove_file(directory.path().join("b")).unwrap();
    let read = drain(&mut *source).unwrap();
    assert_eq!(times(&read), [1]);
    let reasons: Vec<_> = dead(&read).into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons[0], "the rest of the file is lost: it was listed, but was gone when its turn came");
    // What calls itself gzip and is not cannot be read either.
    assert!(reasons[1].starts_with("the rest of the file is lost: reading it failed:"), "{}", reasons[1]);
    assert!(source.partitions().iter().all(|partition| partition.finished));
}

#[test]
fn path_that_means_nothing_is_refused_with_a_hint() {
    let directory = TempDir::new().unwrap();
    let refused = |path: String, hint: &str| {
        let error = open(&settings(path, Format::Json), &[]).err().unwrap().to_string();
        assert!(error.contains(hint), "{error}");
    };
    let base = directory.path().display().to_string();
    refused(format!("{base}/rides.json"), "there is no file or directory");
    refused(format!("{base}/*.json"), "matches no file");
    refused(base.clone(), "matches no file");
    refused(String::new(), "`path` is empty");
    refused(format!("{base}/[a.json"), "is the pattern");
}

#[test]
fn position_behind_the_end_of_its_file_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    for bytes in ["{\"t\":1}\n".as_bytes().to_vec(), gzip(b"{\"t\":1}\n")] {
        fs::write(&path, bytes).unwrap();
        let next = serde_json::json!({ "byte": 80, "line": 11, "records": 10 });
        let positions = [Partition { name: path.to_str().unwrap().into(), next, finished: false }];
        let error = open(&settings(&path, Format::Json), &positions).err().unwrap().to_string();
        assert!(error.contains("rides.json` was read up to byte 80, but it has only 8"), "{error}");
    }
}

#[test]
fn files_that_move_with_their_job_are_read_on() {
    let directory = TempDir::new().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    fs::create_dir_all(old.join("rides")).unwrap();
    (0..3).for_each(|file| fs::write(old.join(format!("rides/{file}")), "{\"t\":1}\n{\"t\":2}\n").unwrap());
    let at = |folder: &Path| Settings { folder: Some(folder.into()), ..settings(folder.join("rides"), Format::Json) };
    let mut source = open(&at(&old), &[]).unwrap();
    // One line of each file.
    (0..3).for_each(|_| drop(source.poll(Limit { records: 1, bytes: 1 << 20 }).unwrap()));
    let positions = source.partitions();
    assert_eq!(
        positions.iter().map(|partition| &*partition.name).collect::<Vec<_>>(),
        ["rides/0", "rides/1", "rides/2"]
    );
    fs::rename(&old, &new).unwrap();
    assert_eq!(times(&drain(&mut *open(&at(&new), &positions).unwrap()).unwrap()), [2, 2, 2]);
    // Named from nowhere, they do not move, whatever way leads to the job file.
    let whole = Settings { folder: None, ..at(&new) };
    let positions = open(&whole, &[]).unwrap().partitions();
    assert_eq!(*positions[0].name, *new.join("rides/0").display().to_string());
}

#[test]
fn followed_file_gives_whole_lines_as_they_come() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    let mut file = fs::File::create(&path).unwrap();
    let settings = Settings { follow: true, ..settings(directory.path(), Format::Json) };
    let mut source = open(&settings, &[]).unwrap();
    let mut append = |text: &str| {
        file.write_all(text.as_bytes()).unwrap();
        times(&drain(&mut *source).unwrap())
    };
    assert_eq!(append(""), [0i64; 0]);
    assert_eq!(append("{\"t\":1}\n{\"t\":"), [1]);
    assert_eq!(append("2"), [0i64; 0]);
    assert_eq!(append("}\n"), [2]);
    fs::write(directory.path().join("more.json"), "{\"t\":7}\n").unwrap();
    assert_eq!(append("{\"t\":3}\n"), [3, 7]);
    // Another file under the same name: the old one is read to its end, then the new one from its start.
    fs::rename(&path, directory.path().join(".rotated")).unwrap();
    fs::write(&path, "{\"t\":5}\n").unwrap();
    assert_eq!(append("{\"t\":4}"), [4, 5]);
    let names: Vec<_> = source.partitions().iter().map(|partition| partition.finished).collect();
    assert_eq!(names, [false, false]);
}

#[test]
fn file_that_was_replaced_between_two_runs_is_told_from_the_one_before() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    let followed = Settings { follow: true, ..settings(&path, Format::Json) };
    for before in
        ["{\"t\":1}\n{\"t\":2}\n".to_string(), format!("{{\"t\":1}}\n{{\"t\":2,\"x\":\"{}\"}}\n", "y".repeat(3_000))]
    {
        fs::write(&path, &before).unwrap();
        let mut source = open(&followed, &[]).unwrap();
        assert_eq!(times(&drain(&mut *source).unwrap()), [1, 2]);
        let positions = source.partitions();
        drop(source);
        // The same file, elsewhere on the disk and grown.
        fs::remove_file(&path).unwrap();
        fs::write(&path, format!("{before}{{\"t\":3}}\n")).unwrap();
        assert_eq!(times(&drain(&mut *open(&followed, &positions).unwrap()).unwrap()), [3]);
        // Another of the same length, and a shorter one.
        for other in [before.replace("\"t\":1", "\"t\":7"), "{\"t\":7}\n{\"t\":2}".into()] {
            fs::write(&path, &other).unwrap();
            let read = drain(&mut *open(&followed, &positions).unwrap()).unwrap();
            let reasons = dead(&read);
            assert!(reasons.len() == 1 && reasons[0].0 == 3 && reasons[0].1.contains("another file"), "{reasons:?}");
            assert_eq!(times(&read)[0], 7);
            let error = open(&settings(&path, Format::Json), &positions).err().unwrap().to_string();
            assert!(error.contains("is not the file that the checkpoint knows"), "{error}");
        }
    }
}

#[test]
fn followed_file_that_shrinks_ends_the_job() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rides.json");
    fs::write(&path, "{\"t\":1}\n{\"t\":2}\n").unwrap();
    let settings = Settings { follow: true, ..settings(&path, Format::Json) };
    let mut source = open(&settings, &[]).unwrap();
    assert_eq!(times(&drain(&mut *source).unwrap()), [1, 2]);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8).unwrap();
    let error = drain(&mut *source).unwrap_err().to_string();
    assert!(error.contains("was cut to 8 bytes while it was followed, and had been read up to byte 16"), "{error}");
    fs::write(&path, gzip(b"{}")).unwrap();
    let error = drain(&mut *open(&settings, &[]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("is compressed"), "{error}");
}

proptest! {
    #[test]
    fn every_line_becomes_a_record_or_a_dead_letter(
        lines in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>().prop_filter("one line", |&byte| byte != b'\n'), 0..40),
            "(\\{\"t\":[0-9]{1,3}\\}|[0-9]{1,3}|\\{| \t|\r)".prop_map(String::into_bytes),
            "x{25,40}".prop_map(String::into_bytes),
        ], 0..20),
        lines_format in any::<bool>(), ends_open in any::<bool>(), records in 1usize..5,
    ) {
        let format = if lines_format { Format::Lines } else { Format::Json };
        let mut text = lines.join(&b'\n');
        if !ends_open {
            text.push(b'\n');
        }
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lines");
        fs::write(&path, &text).unwrap();
        let mut source = open(&Settings { max_record_bytes: 24, ..settings(&path, format) }, &[]).unwrap();
        let mut places = vec![];
        loop {
            match source.poll(Limit { records, bytes: 64 }).unwrap() {
                Polled::Records(read) => {
                    prop_assert!(read.batch.len() + read.dead.len() <= records);
                    places.extend(read.batch.origin.unwrap().places);
                    places.extend(read.dead.iter().map(|letter| letter.place.unwrap()));
                }
                Polled::Finished => break,
                Polled::Nothing(_) | Polled::Partitions => {}
            }
        }
        places.sort_unstable();
        let is_blank = |line: &[u8]| match format {
            // A carriage return at the end belongs to the line end.
            Format::Json => line.iter().all(|byte| b" \t\r".contains(byte)),
            _ => line.strip_suffix(b"\r").unwrap_or(line).is_empty(),
        };
        let mut expected: Vec<u64> = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text).split(|&byte| byte == b'\n')
            .enumerate().filter(|(_, line)| !is_blank(line)).map(|(at, _)| at as u64 + 1).collect();
        // Random bytes can look like a compressed file; that loses the file as a whole.
        prop_assume!(!text.starts_with(b"\x1f\x8b") && !text.starts_with(b"\x28\xb5\x2f\xfd"));
        expected.sort_unstable();
        prop_assert_eq!(places, expected);
    }

    #[test]
    fn any_csv_is_read_without_panic_and_the_same_in_every_cut(text in "[a\",\n\r\\xff é0-9]{0,80}", records in 1usize..4) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lines");
        fs::write(&path, format!("t,b\n{text}")).unwrap();
        let settings = Settings { max_record_bytes: 16, ..settings(&path, Format::Csv) };
        let read = |limit: Limit| {
            let (mut source, mut seen) = (open(&settings, &[]).unwrap(), vec![]);
            loop {
                match source.poll(limit).unwrap() {
                    Polled::Records(read) => {
                        let places = read.batch.origin.unwrap().places;
                        seen.extend(places.into_iter().zip(read.batch.timestamps).map(|(place, time)| (place, time.to_string())));
                        seen.extend(read.dead.into_iter().map(|letter| (letter.place.unwrap(), letter.reason)));
                    }
                    Polled::Finished => break,
                    Polled::Nothing(_) | Polled::Partitions => {}
                }
            }
            seen.sort();
            seen
        };
        prop_assert_eq!(read(Limit { records, bytes: 1 << 20 }), read(Limit { records: 4096, bytes: 1 << 20 }));
    }
}
