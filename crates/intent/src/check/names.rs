//! Names and the references to them.

use std::collections::{BTreeSet, HashMap};

use crate::problem::{Findings, Path};
use crate::suggest::did_you_mean;

/// The names of one section.
pub(super) struct Table<'d> {
    noun: &'static str,
    section: &'static str,
    positions: HashMap<&'d str, usize>,
    broken: &'d [String],
    incomplete: bool,
}

impl<'d> Table<'d> {
    /// The names of `section`, whose entries are each called a `noun`. Names that occur twice are noted; the first counts.
    pub(super) fn new(
        noun: &'static str,
        section: &'static str,
        names: impl Iterator<Item = (usize, &'d str)>,
        broken: &'d [String],
        incomplete: bool,
        findings: &mut Findings,
    ) -> Self {
        let mut positions = HashMap::new();
        for (index, name) in names {
            let first = *positions.entry(name).or_insert(index);
            if first != index {
                let message =
                    format!("'{name}' is also the name of {section}[{first}]; give each {noun} its own name");
                findings.report(Path::entry(section, index).field("name"), message);
            }
        }
        Self { noun, section, positions, broken, incomplete }
    }

    /// The position of the entry called `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The position of the entry called `name`, to which `path` refers. A name that is not known is noted, unless the entry may
    /// be among those that could not be read.
    pub(super) fn resolve(&self, name: &str, path: Path, findings: &mut Findings) -> Option<usize> {
        let found = self.find(name);
        // An entry whose name could not be read either may be the one that is meant.
        let nameless = self.incomplete && self.broken.is_empty();
        if found.is_none() && !nameless && !self.broken.iter().any(|broken| broken == name) {
            let (noun, section) = (self.noun, self.section);
            let hint = if self.positions.is_empty() && !self.incomplete {
                format!("; the document has no {section}")
            } else {
                let broken = self.broken.iter().map(String::as_str);
                // Sorted, so that of two names equally near the same one is told every time.
                let known: BTreeSet<&str> = self.positions.keys().copied().chain(broken).collect();
                let hint = did_you_mean(name, known);
                if hint.is_empty() { format!("; add it to {section}, or correct the name") } else { hint }
            };
            findings.report(path, format!("there is no {noun} '{name}'{hint}"));
        }
        found
    }

    /// Some of the section's entries are not known.
    pub(super) fn incomplete(&self) -> bool {
        self.incomplete
    }
}
