//! What is wrong with a document: every problem with its place and one sentence that says what to change.

use std::borrow::Cow;
use std::fmt;

/// Most problems that are kept; of more only the number is told.
pub const MAX_PROBLEMS: usize = 1000;

/// A place in a document, as `segments[2].vni`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<Step>);

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Into a field of this name.
    Field(Cow<'static, str>),
    /// Into the list's entry at this position, the first being 0.
    Index(usize),
}

impl Path {
    /// The whole document.
    pub fn root() -> Self {
        Self::default()
    }

    /// The entry `index` of the section `section`.
    pub(crate) fn entry(section: &'static str, index: usize) -> Self {
        Self::root().field(section).index(index)
    }

    /// The field `name` below this place.
    pub fn field(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Step::Field(name.into()));
        self
    }

    /// The entry `index` below this place.
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// One step further.
    pub(crate) fn step(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// The path of the first `length` steps.
    pub(crate) fn leading(&self, length: usize) -> Self {
        Self(self.0.iter().take(length).cloned().collect())
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if position == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A position in the text of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, the first being 1.
    pub line: usize,
    /// Column in characters, the first being 1.
    pub column: usize,
}

/// One thing that is wrong, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the text; none where the document was not read from a text.
    pub position: Option<Position>,
    /// Where in the document; the root where it concerns the whole file.
    pub path: Path,
    /// One sentence: what is wrong and what to change.
    pub message: String,
}

/// Everything that is wrong with a document, in the order of the text.
///
/// Displayed as one line for each problem: `node.yaml:17: segments[2].vni: 71680 is also the VNI of …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    file: String,
    problems: Vec<Problem>,
    omitted: usize,
}

impl Problems {
    pub(crate) fn new(file: &str, findings: Findings) -> Self {
        let Findings { mut problems, omitted } = findings;
        problems.sort_by_key(|problem| problem.position.unwrap_or(Position { line: 0, column: 0 }));
        Self { file: file.to_owned(), problems, omitted }
    }

    /// One problem that concerns the whole file, so that nothing else can be said of it.
    pub(crate) fn of_file(file: &str, message: impl Into<String>) -> Self {
        let problem = Problem { position: None, path: Path::root(), message: message.into() };
        Self { file: file.to_owned(), problems: vec![problem], omitted: 0 }
    }

    /// Name of the file, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The problems, never none, at most [`MAX_PROBLEMS`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many more there were than are kept.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            if let Some(Position { line, .. }) = problem.position {
                write!(f, ":{line}")?;
            }
            if !problem.path.steps().is_empty() {
                write!(f, ": {}", problem.path)?;
            }
            write!(f, ": {}", problem.message)?;
        }
        match self.omitted {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more problem"),
            more => write!(f, "\nand {more} more problems"),
        }
    }
}

impl std::error::Error for Problems {}

/// Problems while they are being found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    omitted: usize,
}

impl Findings {
    /// Notes a problem. Its position is looked up by its path later, in [`Findings::locate`].
    pub(crate) fn report(&mut self, path: Path, message: impl Into<String>) {
        self.push(Problem { position: None, path, message: message.into() });
    }

    /// Notes a problem; its path and sentence are only made where it is kept.
    pub(crate) fn report_with(&mut self, problem: impl FnOnce() -> (Path, String)) {
        if self.problems.len() < MAX_PROBLEMS {
            let (path, message) = problem();
            self.report(path, message);
        } else {
            self.omitted += 1;
        }
    }

    /// Notes a problem whose position is known.
    pub(crate) fn report_at(&mut self, position: Position, path: Path, message: impl Into<String>) {
        self.push(Problem { position: Some(position), path, message: message.into() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Changes the path of every problem.
    pub(crate) fn map_paths(&mut self, map: impl Fn(&Path) -> Path) {
        for problem in &mut self.problems {
            problem.path = map(&problem.path);
        }
    }

    /// Gives every problem without a position the one that `lookup` knows for its path.
    pub(crate) fn locate(&mut self, lookup: impl Fn(&Path) -> Option<Position>) {
        for problem in &mut self.problems {
            if problem.position.is_none() {
                problem.position = lookup(&problem.path);
            }
        }
    }

    fn push(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.omitted += 1;
        }
    }
}
