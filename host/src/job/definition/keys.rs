//! Every key of a job file on one page: what it takes, its default, a sentence. The reader knows no key and no default that
//! does not stand here; docs/job-file.md is made from it.

/// A map of the job file and the keys it may have.
#[derive(Debug)]
pub struct Group {
    /// Heading in the documentation.
    pub title: &'static str,
    /// What it is for.
    pub says: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What values it takes.
    pub takes: &'static str,
    /// What happens without it.
    pub without: WithoutIt,
    /// What it does.
    pub says: &'static str,
}

/// What happens without a key.
#[derive(Debug)]
pub enum WithoutIt {
    /// The file is refused.
    Required,
    /// This value is taken.
    Is(&'static str),
    /// It stays open; what that means.
    None(&'static str),
}

use WithoutIt::{Is, None as Open, Required};

const fn key(name: &'static str, takes: &'static str, without: WithoutIt, says: &'static str) -> Key {
    Key { name, takes, without, says }
}

/// The top of the file.
pub const JOB: Group = Group {
    title: "The job",
    says: "The top of the file.",
    keys: &[
        key("name", "name", Required, "The job's name: letters, digits, `-` and `_`."),
        key("parallelism", "number", Is("1"), "Tasks of each source and operator that says nothing else."),
        key("max_parallelism", "number", Is("128"), "Key groups; fixed when the job is created, 1 to 32768."),
        key("checkpoint", "map", Open("its defaults"), "When and how checkpoints are taken."),
        key("state", "map", Open("its defaults"), "Where state is kept."),
        key("restart", "map", Open("its defaults"), "When the job starts again after a failure."),
        key("dead_letters", "map", Open("its defaults"), "Where records that were put aside go."),
        key("sources", "map of names", Required, "Where records come from."),
        key("operators", "map of names", Open("none"), "What is done with them."),
        key("sinks", "map of names", Required, "Where results go."),
    ],
};

/// `checkpoint`.
pub const CHECKPOINT: Group = Group {
    title: "`checkpoint`",
    says: "A checkpoint is what the job goes on from after a stop or a crash, and when exactly-once output becomes visible.",
    keys: &[
        key("every", "duration or `n records`", Is("10s"), "How often."),
        key("keep", "number", Is("2"), "How many are kept, at least 1."),
        key("timeout", "duration", Is("10m"), "One that takes longer is abandoned, and the job goes on."),
        key(
            "min_pause",
            "duration",
            Is("0s"),
            "The next begins so long after the end of the last one at the earliest. Not with `n records`.",
        ),
        key(
            "tolerated_failures",
            "number",
            Open("any number"),
            "So many in a row may be abandoned; one more fails the job.",
        ),
        key(
            "mode",
            "`exactly_once`, `at_least_once` or `unaligned`",
            Is("exactly_once"),
            "What they promise and cost: see [delivery](delivery.md#modes). With `n records` always `exactly_once`.",
        ),
    ],
};

/// `state`.
pub const STATE: Group = Group {
    title: "`state`",
    says: "Where operators remember.",
    keys: &[
        key(
            "backend",
            "`memory` or `rocksdb`",
            Is("memory"),
            "What holds it: memory, or a database on disk for state larger than that.",
        ),
        key(
            "memory",
            "size",
            Is("1GiB"),
            "With `rocksdb`: memory that the state of all the job's tasks takes together.",
        ),
    ],
};

/// `restart`.
pub const RESTART: Group = Group {
    title: "`restart`",
    says: "A job that fails starts again from its last checkpoint, except where the same records would fail it again (`on_error: fail`, `dead_letters: { fail: true }`).",
    keys: &[
        key(
            "attempts",
            "number",
            Is("5"),
            "Restarts in a row, without a checkpoint in between, before it gives up; 0: none.",
        ),
        key("delay", "duration", Is("1s"), "Before the first of them; it doubles with each."),
        key("max_delay", "duration", Is("1m"), "No delay is longer."),
    ],
};

/// `dead_letters`.
pub const DEAD_LETTERS: Group = Group {
    title: "`dead_letters`",
    says: "Records put aside, each with the reason.",
    keys: &[
        key("path", "path", Open("the job's data directory"), "The folder that gets them, as files of JSON lines."),
        key("fail", "boolean", Is("false"), "The first one fails the job instead."),
    ],
};

/// Keys of every source.
pub const SOURCE: Group = Group {
    title: "A source",
    says: "Keys of every source, whatever its connector.",
    keys: &[
        key("connector", "`file` or `generator`", Required, "What reads the records."),
        key(
            "event_time",
            "map or `processing_time`",
            Open("records have no event time"),
            "Where a record's time stands; `processing_time`: it is what the clock says when the record is read.",
        ),
        key("arrival", "map", Open("unknown"), "Where the time of arrival stands."),
        key("watermark", "map", Open("its defaults"), "How the watermark follows the records' times."),
        key("tolerance", "map", Open("its defaults"), "How far a record's time may be from its arrival."),
        key(
            "on_bad_record",
            "`dead_letter` or `fail`",
            Is("dead_letter"),
            "What happens with a record that cannot be read.",
        ),
        key("parallelism", "number", Open("the job's"), "Tasks that read it, at most one per partition."),
    ],
};

/// Keys of the file source.
pub const FILE_SOURCE: Group = Group {
    title: "`connector: file`",
    says: "Reads files; `.gz` and `.zst` are unpacked, unless they are followed: a packed file is complete, and refused. Each file is a partition, read in its order. Of a folder its files are read, not its folders.",
    keys: &[
        key("path", "path", Required, "A file, a pattern such as `rides/*.jsonl`, or a folder."),
        key(
            "format",
            "`json`, `csv` or `lines`",
            Is("json"),
            "One JSON value per line, CSV with a header, or plain lines. A line has no fields: it is the value itself, pointer `\"\"`, and most often goes by `event_time: processing_time`.",
        ),
        key("follow", "boolean", Is("false"), "Go on reading what is appended and the files that appear."),
        key("max_record_bytes", "size", Is("1MiB"), "A longer record is put aside."),
    ],
};

/// Keys of the generator source.
pub const GENERATOR_SOURCE: Group = Group {
    title: "`connector: generator`",
    says: "Makes up records; the same settings always make the same ones.",
    keys: &[
        key("kind", "`rides`, `pickups`, `payments` or `regions`", Required, "What records it makes."),
        key("seed", "number", Is("1"), "Seed of all chance."),
        key("rate", "`n/s` or `unlimited`", Is("unlimited"), "Records per second."),
        key("records", "number", Open("without end"), "How many in all."),
        key("partitions", "number", Is("1"), "Partitions, each with an order of its own."),
        key("keys", "number", Is("10"), "Distinct keys: cities, cards."),
        key("skew", "number", Is("0"), "Exponent of the keys' Zipf distribution; 0: all equally likely."),
        key("start", "time", Is("2024-05-01T09:00:00Z"), "Time of the first record."),
        key("event_rate", "`n/s`", Is("100/s"), "Records per second of event time."),
        key("out_of_order", "duration", Is("0s"), "Times are shuffled by up to this much."),
        key("stragglers", "share", Is("0"), "Share of records that come much later, 0 to 1."),
        key("straggle", "duration", Is("5m"), "How much later those come at most."),
        key(
            "duplicates",
            "share",
            Is("0"),
            "Share of records, 0 to 1, in whose place one of the last 100 comes again.",
        ),
    ],
};

/// `event_time` and `arrival`.
pub const TIME_FIELD: Group = Group {
    title: "`event_time` and `arrival`",
    says: "Where a time stands in a record.",
    keys: &[
        key("field", "pointer", Required, "Where: `/requested_at`, a column of a CSV file as `/name`."),
        key("format", "`unix_s`, `unix_ms`, `unix_us`, `unix_ns` or `rfc3339`", Is("rfc3339"), "How it is written."),
    ],
};

/// `watermark`.
pub const WATERMARK: Group = Group {
    title: "`watermark`",
    says: "The watermark says up to which time records are complete; windows wait for it.",
    keys: &[
        key(
            "bound",
            "duration",
            Open("refused, unless `emit: at_end`"),
            "How far it trails the latest record: what comes later than this is late.",
        ),
        key(
            "emit",
            "`per_record`, `periodic` or `at_end`",
            Is("periodic"),
            "When it is sent. `at_end`: once, at the end of a bounded input; nothing is late.",
        ),
        key(
            "every",
            "duration",
            Is("200ms"),
            "Read, and without effect in this version: with `emit: periodic` the end of each batch sends it.",
        ),
        key(
            "idle_after",
            "duration or `never`",
            Is("1m"),
            "A partition that had nothing for so long no longer holds it back.",
        ),
        key(
            "when_all_idle",
            "`hold` or `advance`",
            Is("hold"),
            "With all partitions idle it stays, or follows the wall clock.",
        ),
        key(
            "max_drift",
            "duration",
            Open("no limit"),
            "A partition further ahead of the slowest is paused. Not in this version: refused.",
        ),
    ],
};

/// `tolerance`.
pub const TOLERANCE: Group = Group {
    title: "`tolerance`",
    says: "Guards against clocks that are wrong: judged where the arrival time is known.",
    keys: &[
        key("ahead", "duration", Is("1h"), "A record's time may be this far ahead of its arrival."),
        key("behind", "duration", Open("any"), "It may be this far behind."),
        key(
            "on_excess",
            "`dead_letter`, `replace` or `side_output`",
            Is("dead_letter"),
            "A record beyond is put aside, gets the arrival time, or goes to the output `out_of_tolerance`.",
        ),
    ],
};

/// Keys of every operator.
pub const OPERATOR: Group = Group {
    title: "An operator",
    says: "Keys of every operator. It has a `window` with an `aggregate`, or a `component`.",
    keys: &[
        key(
            "input",
            "reference",
            Open("`inputs`"),
            "What it reads: a source, an operator, or an operator's output such as `per-minute.late`.",
        ),
        key(
            "inputs",
            "list of references, or map of names to `{ from, key, broadcast }`",
            Open("`input`"),
            "Several inputs; a map gives them the component's names.",
        ),
        key("key", "pointer or list of pointers", Open("not keyed"), "The fields that make a record's key."),
        key("parallelism", "number", Open("the job's"), "Tasks that run it."),
    ],
};

/// An entry of `inputs`.
pub const INPUT: Group = Group {
    title: "An entry of `inputs`",
    says: "One named input.",
    keys: &[
        key("from", "reference", Required, "What it reads."),
        key("key", "pointer or list of pointers", Open("the operator's"), "The fields that make its records' key."),
        key(
            "broadcast",
            "boolean",
            Is("false"),
            "Every task gets every record, and may write broadcast maps for it. Such an input has no key.",
        ),
    ],
};

/// Keys of a window operator.
pub const WINDOW_OPERATOR: Group = Group {
    title: "An operator with a window",
    says: "Collects the records of a key in windows of time and sends one pane per key and window.",
    keys: &[
        key("window", "map", Required, "Which windows."),
        key(
            "aggregate",
            "map",
            Required,
            "What is computed: `count: {}`, `sum: /fare`, `total: { sum: /fare }`, `score: { component: … }`.",
        ),
    ],
};

/// `window`.
pub const WINDOW: Group = Group {
    title: "`window`",
    says: "Windows are aligned to 1970-01-01T00:00Z. A record at a window's end belongs to the next.",
    keys: &[
        key("tumbling", "duration", Required, "Length of windows that lie end to end."),
        key("offset", "duration", Is("0s"), "Shifts all windows; may be negative."),
        key(
            "allowed_lateness",
            "duration",
            Is("0s"),
            "A late record is still counted this long after the window's end, and makes a late pane.",
        ),
    ],
};

/// An entry of `aggregate`.
pub const AGGREGATE: Group = Group {
    title: "An entry of `aggregate`",
    says: "The entry's name is the column's. `sum: /fare` is short for `sum: { sum: /fare }`. It has one of the functions, or a `component` with the keys of a component.",
    keys: &[
        key("count", "pointer or `{}`", Open(""), "Counts rows, or those that have the field."),
        key("sum", "pointer", Open(""), "Adds the field up."),
        key("min", "pointer", Open(""), "The least."),
        key("max", "pointer", Open(""), "The greatest."),
        key("mean", "pointer", Open(""), "The arithmetic mean."),
        key(
            "type",
            "`int`, `float` or `text`",
            Open("the column's, else `float`"),
            "What the field is read as; ints are added exactly. A sum beyond 64 bits is null, and a dead letter says so.",
        ),
    ],
};

/// Keys of a component that is an operator.
pub const PROCESSOR: Group = Group {
    title: "An operator with a component",
    says: "Beside the keys of a component.",
    keys: &[key(
        "keep",
        "`forever`",
        Open("refused where the component needs it"),
        "States by key that have neither a time to live nor timers are meant to be kept without end.",
    )],
};

/// Keys of a component.
pub const COMPONENT: Group = Group {
    title: "A component",
    says: "Logic of your own, as an operator or as an aggregate.",
    keys: &[
        key(
            "component",
            "path",
            Required,
            "A `.wasm` file, or the folder of an operator project, which is built first.",
        ),
        key("config", "anything", Open("`{}`"), "Handed to the component as JSON."),
        key(
            "fields",
            "map of names to pointers",
            Open("as the component says"),
            "Takes a field from elsewhere than the component says.",
        ),
        key(
            "on_error",
            "`dead_letter`, `skip` or `fail`",
            Is("dead_letter"),
            "What happens with a record it fails on.",
        ),
        key("limits", "map", Open("its defaults"), "What one instance may use."),
    ],
};

/// `limits`.
pub const LIMITS: Group = Group {
    title: "`limits`",
    says: "A call that goes beyond fails as if it had trapped.",
    keys: &[
        key("memory", "size", Is("64MiB"), "Memory of one instance."),
        key("time", "duration", Is("1s"), "Time of one call."),
        key("output_records", "number", Is("1000000"), "Rows that one call may send."),
        key("output_bytes", "size", Is("32MiB"), "Bytes that one call may send."),
    ],
};

/// Keys of every sink.
pub const SINK: Group = Group {
    title: "A sink",
    says: "Keys of every sink, whatever its connector.",
    keys: &[
        key("input", "reference", Required, "What it reads."),
        key("connector", "`stdout`, `file` or `sqlite`", Required, "Where rows go."),
        key(
            "columns",
            "list of columns",
            Open("all"),
            "Only these, in this order; `\"\"` is the whole value, written as `value`. An object, an array or a number beyond 64 bits is written as the record has it, into CSV and tables as its JSON text.",
        ),
        key("times", "`rfc3339` or `unix_ms`", Is("rfc3339"), "How times are written."),
        key(
            "delivery",
            "`exactly_once` or `at_least_once`",
            Open("the best the settings give"),
            "What you rely on: refused if the settings do not give it.",
        ),
        key("force", "boolean", Is("false"), "Do what is refused otherwise."),
    ],
};

/// Keys of the stdout sink.
pub const STDOUT_SINK: Group = Group {
    title: "`connector: stdout`",
    says: "Writes rows to standard output as they come: at least once.",
    keys: &[key(
        "format",
        "`json`, `csv` or `raw`",
        Is("json"),
        "How a row is written; `raw`: the whole value as it is.",
    )],
};

/// Keys of the file sink.
pub const FILE_SINK: Group = Group {
    title: "`connector: file`",
    says: "Writes files that appear whole when their checkpoint is decided: exactly once.",
    keys: &[
        key("path", "path", Required, "The folder that gets the files."),
        key("format", "`json`, `csv` or `raw`", Is("json"), "How a row is written; `raw`: the whole value as it is."),
    ],
};

/// Keys of the SQLite sink.
pub const SQLITE_SINK: Group = Group {
    title: "`connector: sqlite`",
    says: "Writes to a table, in one transaction per checkpoint: exactly once, unless `immediate`.",
    keys: &[
        key("path", "path", Required, "The database file; made if it is not there."),
        key("table", "name", Required, "The table; made if it is not there."),
        key(
            "mode",
            "`append`, `upsert` or `add`",
            Is("append"),
            "A new row; the row with its key is replaced; its numbers are added to those of the row with its key, which nothing that is no number takes the place of.",
        ),
        key(
            "key",
            "list of columns",
            Open("none; required for `upsert` and `add`"),
            "The columns that name a row of the table.",
        ),
        key(
            "immediate",
            "boolean",
            Is("false"),
            "Rows are written at once instead of with the checkpoint: at least once.",
        ),
    ],
};

/// All of them, in the documentation's order.
pub const GROUPS: [&Group; 23] = [
    &JOB,
    &CHECKPOINT,
    &STATE,
    &RESTART,
    &DEAD_LETTERS,
    &SOURCE,
    &FILE_SOURCE,
    &GENERATOR_SOURCE,
    &TIME_FIELD,
    &WATERMARK,
    &TOLERANCE,
    &OPERATOR,
    &INPUT,
    &WINDOW_OPERATOR,
    &WINDOW,
    &AGGREGATE,
    &COMPONENT,
    &PROCESSOR,
    &LIMITS,
    &SINK,
    &STDOUT_SINK,
    &FILE_SINK,
    &SQLITE_SINK,
];
