//! JSON lines. The wanted pointers are a tree; one pass over a line validates it and notes what stands at them.

use super::json_layout::Layout;
use super::json_scan::{Child, Node, Scanner};
use super::rows::{Cell, Plan, Row};
use super::{Decoded, Decoder, DecoderSettings, Format, Span, segments};
use crate::source::Projection;
use bytes::Bytes;
use dataflow::record::{Column, Fault, Raw, Schema};

/// Lines whose columns are made together: few enough that what was found in them stays in the processor's first cache.
const TOGETHER: usize = 64;

/// Decodes JSON lines.
#[derive(Debug)]
pub(super) struct Json {
    plan: Plan,
    tree: Vec<Node>,
    layout: Layout,
}

impl Json {
    pub(super) fn new(plan: Plan) -> Self {
        let tree = tree(&plan.pointers);
        Self { plan, tree, layout: Layout::default() }
    }
}

impl Decoder for Json {
    fn wants_header(&self) -> bool {
        false
    }

    fn decode(&mut self, slab: &Bytes, records: &[Span]) -> anyhow::Result<Decoded> {
        let mut decoded = self.plan.begin(records.len());
        decoded.keep_raw(slab, records.len());
        let Self { plan, tree, layout } = self;
        let width = plan.pointers.len();
        let mut cells = vec![Cell::Absent; width * TOGETHER];
        let mut rows = Vec::with_capacity(TOGETHER);
        decoded.each_text(slab, records, |decoded, text, span| {
            let own = &mut cells[rows.len() * width..][..width];
            own.fill(Cell::Absent);
            match layout.scan(text, &slab[span.from as usize..], tree, own) {
                Ok(()) => rows.push(Row { whole: text, raw: (span.from, span.to), line: span.line }),
                Err(_) => decoded.put_aside(span.line, why_not_json(text), text.as_bytes()),
            }
            if rows.len() == TOGETHER {
                plan.push(decoded, &cells, &rows);
                rows.clear();
            }
        });
        plan.push(&mut decoded, &cells[..rows.len() * width], &rows);
        // Those without a time were found later than those that are not JSON.
        decoded.dead.sort_by_key(|letter| letter.place);
        Ok(decoded)
    }
}

/// Takes fields out of whole values that are JSON, such as those a guest puts out. A value that is not JSON has none.
pub fn fields_of_json(raw: &Raw, schema: &Schema) -> (Vec<Column>, Vec<Fault>) {
    let settings = DecoderSettings { format: Format::Json, event_time: None, arrival: None };
    let plan = Plan::new(&settings, &Projection { schema: schema.clone(), whole_values: false });
    let tree = tree(&plan.pointers);
    let mut batch = plan.begin(raw.spans.len()).batch;
    let mut cells = vec![Cell::Absent; plan.pointers.len()];
    for row in 0..raw.spans.len() {
        cells.fill(Cell::Absent);
        let text = raw.get(row).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
        if Scanner::new(text, &tree, &mut cells).record().is_err() {
            cells.fill(Cell::Absent);
        }
        plan.push_columns(&mut batch, row, &cells, &[Row { whole: text, raw: raw.spans[row], line: 0 }]);
    }
    (batch.columns, batch.faults)
}

/// The tree of the pointers; node 0 is the whole value.
fn tree(pointers: &[String]) -> Vec<Node> {
    let mut tree = vec![Node::default()];
    for (cell, pointer) in pointers.iter().enumerate() {
        let mut node = 0;
        for segment in segments(pointer) {
            let known = tree[node].children.iter().find(|child| *child.name == *segment).map(|child| child.node);
            node = known.unwrap_or_else(|| {
                tree.push(Node::default());
                let child = tree.len() - 1;
                tree[node].children.push(Child::new(segment, child));
                child
            });
        }
        tree[node].cell = Some(cell);
    }
    tree
}

/// The scanner only finds that a line is wrong; the library says it better, and time is no matter here.
#[cold]
fn why_not_json(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => {
            let said = error.to_string();
            let reason = said.split(" at line ").next().unwrap_or("wrong");
            format!("not JSON: {reason} at byte {}", error.column())
        }
        Ok(_) => format!("nested deeper than {} levels", super::json_scan::DEPTH_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    const POINTERS: [&str; 7] = ["/a", "/b", "/a/b", "/a/0", "/a/b/1", "/~01~1\"", ""];

    /// What lies behind a line in its buffer: nothing, more lines, or what would make a line whole that is not.
    const BEHIND: [&str; 3] = ["", "\n{\"a\":1,\"b\":\"text\"}\n{\"a\":2}", "\"}]}1234567890123456}\"}"];

    /// Scans `text` with what `layout` has learnt, whatever lies behind it: all the same.
    fn scan_like<'a>(text: &'a str, layout: &mut Layout, cells: &mut [Cell<'a>; POINTERS.len()]) -> bool {
        let tree = tree(&POINTERS.map(String::from));
        cells.fill(Cell::Absent);
        let is_json = Scanner::new(text, &tree, cells).record().is_ok();
        for behind in BEHIND {
            let ahead = format!("{text}{behind}");
            let mut again = [Cell::Absent; POINTERS.len()];
            let scanned = layout.scan(&ahead[..text.len()], ahead.as_bytes(), &tree, &mut again);
            assert_eq!(scanned.is_ok(), is_json, "{text} before {behind}");
            assert!(!is_json || again == *cells, "{text} before {behind}");
        }
        is_json
    }

    /// Scans a text as it is, and after having learnt its layout: all the same.
    fn scan<'a>(text: &'a str, cells: &mut [Cell<'a>; POINTERS.len()]) -> bool {
        scan_like(text, &mut Layout::default(), cells)
    }

    fn json() -> impl Strategy<Value = String> {
        let name =
            prop_oneof![Just(r#""a""#), Just(r#""b""#), Just(r#""\u0061""#), Just(r#""~1/\"""#), Just(r#""x\\""#)];
        let leaf = prop_oneof![
            "(null|true|false|0|-0|[1-9][0-9]{0,20}|-?[0-9]\\.[0-9]{1,3}([eE][+-]?[0-9]{1,2})?)".prop_map(|leaf| leaf),
            "\"([a-z ,:{}\\[\\]é]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-fA-F]{2}|\\\\ud83d\\\\ude00){0,12}\"",
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let space = prop_oneof![2 => Just(String::new()), 1 => "[ \t]{0,2}"];
            prop_oneof![
                (space.clone(), prop::collection::vec(inner.clone(), 0..4))
                    .prop_map(|(space, values)| format!("[{space}{}]", values.join(&format!("{space},")))),
                (space, prop::collection::vec((name.clone(), inner), 0..4)).prop_map(|(space, members)| {
                    let members: Vec<_> =
                        members.iter().map(|(name, value)| format!("{name}{space}:{value}")).collect();
                    format!("{space}{{{}{space}}}{space}", members.join(","))
                }),
            ]
        })
    }

    fn same(cell: Cell<'_>, value: Option<&Json>) -> bool {
        match (cell, value) {
            (Cell::Absent, None | Some(Json::Null)) => true,
            (Cell::Text(text), Some(Json::String(value))) => text == value,
            (Cell::Escaped(quoted), Some(Json::String(value))) => {
                serde_json::from_str::<String>(quoted).unwrap() == *value
            }
            (Cell::Number(number), Some(Json::Number(value))) => {
                serde_json::from_str::<serde_json::Number>(number).unwrap() == *value
            }
            (Cell::Boolean(boolean), Some(Json::Bool(value))) => boolean == *value,
            (cell, Some(Json::Object(_))) => cell == Cell::Object,
            (cell, Some(Json::Array(_))) => cell == Cell::Array,
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn finds_what_the_library_finds(text in json()) {
            let value: Json = serde_json::from_str(&text).unwrap();
            let mut cells = [Cell::Absent; POINTERS.len()];
            prop_assert!(scan(&text, &mut cells), "{text} is JSON");
            for (pointer, cell) in POINTERS.iter().zip(cells) {
                prop_assert!(same(cell, value.pointer(pointer)), "{text}: {pointer} is {cell:?}");
            }
        }

        #[test]
        fn refuses_what_the_library_refuses(text in json(), at in any::<prop::sample::Index>(), put in "[\\x00-\\x7f]?") {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places[at.index(places.len())];
            let end = at + text[at..].chars().next().unwrap().len_utf8();
            let before = text;
            let text = format!("{}{put}{}", &before[..at], &before[end..]);
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            let mut cells = [Cell::Absent; POINTERS.len()];
            prop_assert_eq!(scan(&text, &mut cells), is_json, "{}", text);
            // A line that is nearly like the one before it.
            let mut layout = Layout::default();
            prop_assert!(scan_like(&before, &mut layout, &mut [Cell::Absent; POINTERS.len()]));
            prop_assert_eq!(scan_like(&text, &mut layout, &mut cells), is_json, "{} after {}", text, before);
        }

        #[test]
        fn any_text_is_judged_as_the_library_does(text in "[\\[\\]{}\",:\\\\0-9eE.+a-u \\x00-\\x1fé-]{0,20}") {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(scan(&text, &mut [Cell::Absent; POINTERS.len()]), is_json, "{}", text);
        }
    }

    #[test]
    fn values_unlike_those_of_the_line_before_are_taken_for_what_they_are() {
        let line = |a: &str, b: &str| format!(r#"{{"x\\":17,"a":{a},"~1/\"":0.25,"b":{b}}}"#);
        let mut layout = Layout::default();
        let mut is_json = |text: String| scan_like(&text, &mut layout, &mut [Cell::Absent; POINTERS.len()]);
        let values = r#""Pune" 12 null true -3 1e5 -0.5E+2 [1,{}] "a\"b" "" 1234567890123456789 "a_text_of_more_than_16_bytes" 0 {}"#;
        let values: Vec<&str> = values.split(' ').collect();
        let wrong = ["", "01", "-", "1.", ".5", "1e", "nul", "\"", "\"a\nb\"", "\"\\x\"", "1 2", "Pune"];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
            assert!(is_json(line(a, b)), "{a} and {b}");
            for wrong in wrong {
                assert!(!is_json(line(wrong, b)), "{wrong} and {b}");
                assert!(!is_json(line(a, wrong)), "{a} and {wrong}");
            }
        }
    }

    #[test]
    fn depth_is_bounded_and_said() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(scan(&deep(128), &mut [Cell::Absent; POINTERS.len()]));
        assert!(!scan(&deep(129), &mut [Cell::Absent; POINTERS.len()]));
        let member = |levels: usize| format!(r#"{{"a":{}}}"#, deep(levels));
        assert!(scan(&member(127), &mut [Cell::Absent; POINTERS.len()]));
        let mut layout = Layout::default();
        for (levels, is_json) in [(1, true), (127, true), (128, false)] {
            let scanned = scan_like(&member(levels), &mut layout, &mut [Cell::Absent; POINTERS.len()]);
            assert_eq!(scanned, is_json, "{levels} levels");
        }
        assert!(!scan(&deep(1_000_000), &mut [Cell::Absent; POINTERS.len()]));
        assert_eq!(why_not_json(&deep(100_000)), "nested deeper than 128 levels");
        assert_eq!(why_not_json("{\"a\" 1}"), "not JSON: expected `:` at byte 6");
    }
}
