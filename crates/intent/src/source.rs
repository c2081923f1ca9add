//! Reads the text of a document, YAML or JSON, into a tree that knows the position of everything in it.
//!
//! The parser is `saphyr-parser`; this module only folds its events. It bounds what a hostile text can cost: nesting
//! ([`MAX_DEPTH`]), values in all ([`MAX_VALUES`]) and values that aliases repeat ([`MAX_ALIASED`]). Merge keys are no part of
//! YAML 1.2 and are not expanded.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr::Scalar;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::problem::{Findings, Path, Position, Step};

/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 32;
/// Most values in a document, lists and mappings among them.
const MAX_VALUES: usize = 8_000_000;
/// Most values that aliases may add to a document.
const MAX_ALIASED: usize = 100_000;

/// A document as a tree of values with their positions.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    at: Position,
    content: Content,
    /// Values in this tree, itself among them.
    size: usize,
}

#[derive(Clone, Debug)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Mapping(Vec<Field>),
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    at: Position,
    node: Node,
}

/// The text is no document at all.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) position: Option<Position>,
    pub(crate) message: String,
}

/// Reads `text`. Fields that occur twice are noted in `findings`; the first counts.
pub(crate) fn read(text: &str, findings: &mut Findings) -> Result<Node, Malformed> {
    let mut reader = Reader::new(findings);
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| malformed(text, &error))?;
        let at = position(&span.start);
        if matches!(event, Event::DocumentStart(_)) && root.is_some() {
            return Err(at_position(at, "a second document begins here; one file holds one node document"));
        }
        if let Some(node) = reader.event(event, at)? {
            root = Some(node);
        }
    }
    root = root.filter(|node| !matches!(node.content, Content::Scalar(Value::Null)));
    let empty = "the file is empty; a node document begins with 'version: 1', 'name' and 'role'";
    root.ok_or_else(|| Malformed { position: None, message: empty.to_owned() })
}

impl Node {
    /// The value without positions.
    pub(crate) fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => Value::Array(items.iter().map(Node::value).collect()),
            Content::Mapping(fields) => {
                let fields = fields.iter().map(|field| (field.name.clone(), field.node.value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Where `path` is in the text, or the innermost place around it that is there.
    pub(crate) fn position(&self, path: &Path) -> Position {
        let mut node = self;
        let mut at = self.at;
        for step in path.steps() {
            let inner = match (step, &node.content) {
                (Step::Field(name), Content::Mapping(fields)) => {
                    fields.iter().find(|field| field.name == *name).map(|field| (&field.node, field.at))
                }
                (Step::Index(index), Content::List(items)) => items.get(*index).map(|item| (item, item.at)),
                _ => None,
            };
            let Some(inner) = inner else { break };
            (node, at) = inner;
        }
        at
    }
}

/// Folds events into nodes.
struct Reader<'f> {
    findings: &'f mut Findings,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    values: usize,
    aliased: usize,
}

/// A list or mapping whose end has not been read.
struct Open {
    at: Position,
    anchor: usize,
    size: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Mapping { fields: Vec<Field>, seen: HashMap<String, Position>, name: Option<(String, Position)> },
}

impl<'f> Reader<'f> {
    fn new(findings: &'f mut Findings) -> Self {
        Self { findings, open: Vec::new(), anchors: HashMap::new(), values: 0, aliased: 0 }
    }

    /// Takes one event; returns the root when it is complete.
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<Option<Node>, Malformed> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(name) = self.expected_name() {
                    *name = Some((text.into_owned(), at));
                    return Ok(None);
                }
                let value = scalar(text, style, tag.as_ref()).ok_or_else(|| {
                    at_position(at, "the value is not of the type that its tag names; remove the tag")
                })?;
                self.complete(Node { at, content: Content::Scalar(value), size: 1 }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                self.begin(at, anchor, OpenKind::List(Vec::new()))?;
                Ok(None)
            }
            Event::MappingStart(anchor, _) => {
                let kind = OpenKind::Mapping { fields: Vec::new(), seen: HashMap::new(), name: None };
                self.begin(at, anchor, kind)?;
                Ok(None)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => Ok(None),
        }
    }

    /// The place for the name of a field, where one comes next.
    fn expected_name(&mut self) -> Option<&mut Option<(String, Position)>> {
        match self.open.last_mut().map(|open| &mut open.kind) {
            Some(OpenKind::Mapping { name, .. }) if name.is_none() => Some(name),
            _ => None,
        }
    }

    fn begin(&mut self, at: Position, anchor: usize, kind: OpenKind) -> Result<(), Malformed> {
        if self.expected_name().is_some() {
            return Err(at_position(at, "the name of a field must be plain text, not a list or a mapping"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(at_position(at, &format!("more than {MAX_DEPTH} lists and mappings in one another")));
        }
        self.open.push(Open { at, anchor, size: 1, kind });
        Ok(())
    }

    fn end(&mut self) -> Result<Option<Node>, Malformed> {
        let Some(Open { at, anchor, size, kind }) = self.open.pop() else { return Ok(None) };
        let content = match kind {
            OpenKind::List(items) => Content::List(items),
            OpenKind::Mapping { fields, .. } => Content::Mapping(fields),
        };
        self.complete(Node { at, content, size }, anchor)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<Option<Node>, Malformed> {
        let node =
            self.anchors.get(&anchor).ok_or_else(|| at_position(at, "an alias inside its own anchor"))?;
        self.aliased += node.size;
        if self.aliased > MAX_ALIASED {
            let message = format!("aliases repeat more than {MAX_ALIASED} values; write the values out");
            return Err(at_position(at, &message));
        }
        if self.expected_name().is_some() {
            return Err(at_position(at, "the name of a field must be plain text, not an alias"));
        }
        let node = self.anchors[&anchor].clone();
        self.complete(node, 0)
    }

    /// Puts a finished node into the list or mapping around it; returns it where there is none.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<Option<Node>, Malformed> {
        self.values += 1;
        if anchor != 0 {
            self.aliased += node.size;
            self.anchors.insert(anchor, node.clone());
        }
        if self.values > MAX_VALUES || self.aliased > MAX_ALIASED {
            let message = format!(
                "the document holds more than {MAX_VALUES} values, or more than {MAX_ALIASED} under anchors"
            );
            return Err(at_position(node.at, &message));
        }
        let Some(open) = self.open.last_mut() else { return Ok(Some(node)) };
        open.size += node.size;
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Mapping { fields, seen, name } => {
                let Some((name, at)) = name.take() else { return Ok(None) };
                if let Some(first) = seen.get(&name) {
                    let message = format!("is already given in line {}; remove one of the two", first.line);
                    let path = self.path().field(name);
                    self.findings.report_at(at, path, message);
                } else {
                    seen.insert(name.clone(), at);
                    fields.push(Field { name, at, node });
                }
            }
        }
        Ok(None)
    }

    /// The path of the innermost open list or mapping.
    fn path(&self) -> Path {
        let around = self.open.split_last().map_or(&[][..], |(_, around)| around);
        around.iter().fold(Path::root(), |path, open| match &open.kind {
            OpenKind::List(items) => path.index(items.len()),
            OpenKind::Mapping { name: Some((name, _)), .. } => path.field(name.clone()),
            OpenKind::Mapping { name: None, .. } => path,
        })
    }
}

/// The value of a scalar by the core schema of YAML 1.2; none where it contradicts its tag.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>) -> Option<Value> {
    let written = text.clone();
    Some(match Scalar::parse_from_cow_and_metadata(text, style, tag)? {
        Scalar::Null => Value::Null,
        Scalar::Boolean(value) => Value::Bool(value),
        Scalar::Integer(value) => Value::from(value),
        Scalar::FloatingPoint(value) => number(value.into_inner(), &written),
        Scalar::String(value) => Value::String(value.into_owned()),
    })
}

/// A number with a fraction or exponent; a whole number where it is one. What JSON cannot express stays text.
fn number(value: f64, written: &str) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or_else(|| Value::String(written.to_owned()), Value::Number)
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

fn at_position(position: Position, message: &str) -> Malformed {
    Malformed { position: Some(position), message: message.to_owned() }
}

/// What the parser refused, with a hint where the cause is a tab: YAML indents with spaces only.
fn malformed(text: &str, error: &saphyr_parser::ScanError) -> Malformed {
    let at = position(error.marker());
    let indented_by_tab = |line: &str| {
        let indentation = &line[..line.len() - line.trim_start().len()];
        indentation.contains('\t')
    };
    let around = text.lines().enumerate().skip(at.line.saturating_sub(1)).take(2);
    for (index, line) in around {
        if indented_by_tab(line) {
            let position = Position { line: index + 1, column: 1 };
            return at_position(
                position,
                "the line is indented with a tab; YAML indents with spaces, so use spaces",
            );
        }
    }
    at_position(at, &format!("this is not well-formed YAML or JSON: {}", error.info()))
}
