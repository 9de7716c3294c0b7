//! What is wrong with a job file, each with its place and a hint. All problems are told at once; values that came from
//! references to secrets are never part of one.

use super::Place;
use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; none: the file as a whole.
    pub place: Option<Place>,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// At a place, without a hint.
    pub fn at(place: Place, message: impl Into<String>) -> Self {
        Self { place: Some(place), message: message.into(), hint: None }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a hint where there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

/// All that is wrong with one file, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    file: String,
    text: String,
    list: Vec<Problem>,
}

impl Problems {
    /// Of the file called `file` whose content is `text`.
    pub fn new(file: &str, text: &str, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| problem.place);
        list.dedup();
        Self { file: file.to_string(), text: text.to_string(), list }
    }

    /// Each of them.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            writeln!(f, "error: {}", problem.message)?;
            match problem.place {
                Some(place) => self.write_place(f, place)?,
                None => writeln!(f, "  --> {}", self.file)?,
            }
            if let Some(hint) = &problem.hint {
                writeln!(f, "  = {hint}")?;
            }
        }
        Ok(())
    }
}

impl Problems {
    fn write_place(&self, f: &mut fmt::Formatter<'_>, place: Place) -> fmt::Result {
        writeln!(f, "  --> {}:{}:{}", self.file, place.line, place.column)?;
        let Some(line) = self.text.lines().nth((place.line as usize).saturating_sub(1)) else { return Ok(()) };
        let number = place.line.to_string();
        let before = place.column.saturating_sub(1) as usize;
        let word = line.chars().skip(before).take_while(|c| !c.is_whitespace() && !",:{}[]".contains(*c)).count();
        let indent: String = line.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "   {number} | {line}")?;
        writeln!(f, "   {:width$} | {indent}{}", "", "^".repeat(word.max(1)), width = number.len())
    }
}

/// The known name nearest to `name`, if near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &name.to_lowercase());
    let near = |known: &str| strsim::damerau_levenshtein(known, name) <= 2 || score(known) > 0.8;
    let candidates = known.into_iter().filter(|known| near(known));
    candidates.max_by(|a, b| score(a).total_cmp(&score(b)))
}

/// `did you mean … ?`, if something is near.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_points_at_its_word() {
        let problem = Problem::at(Place { line: 2, column: 3 }, "unknown key `inptu`").hint("did you mean `input`?");
        let problems = Problems::new("job.yaml", "sinks:\n  inptu: x\n", vec![problem]);
        let expected = "\
error: unknown key `inptu`
  --> job.yaml:2:3
   2 |   inptu: x
     |   ^^^^^
  = did you mean `input`?
";
        assert_eq!(problems.to_string(), expected);
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("paralelism", ["parallelism", "name"]), Some("parallelism"));
        assert_eq!(nearest("zebra", ["parallelism", "name"]), None);
    }
}
