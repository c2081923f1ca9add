//! What is printed: text, fields and tables, fitted to the terminal, filtered, or as JSON.

use std::io::{IsTerminal, Write, stdout};

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid};
use serde_json::Value;

use crate::error::CliError;
use crate::line::View;

/// Characters between columns.
const GAP: u16 = 2;
/// Characters of a column of words that can still be read; where there is room for less, rows are shown one field a line.
const READABLE: usize = 16;

/// What a command answers: the same facts for people and for programs.
#[derive(Debug)]
pub(crate) struct Output {
    /// For people, from top to bottom.
    pub(crate) blocks: Vec<Block>,
    /// For programs.
    pub(crate) json: Value,
}

impl Output {
    /// One sentence.
    pub(crate) fn sentence(text: impl Into<String>, json: Value) -> Self {
        Self { blocks: vec![Block::Text(text.into())], json }
    }
}

/// A part of what people see.
#[derive(Debug)]
pub(crate) enum Block {
    /// Lines.
    Text(String),
    /// The heading of what follows.
    Heading(String),
    /// `Name : value` lines.
    Fields(Vec<(String, String)>),
    /// Columns.
    Table(Table),
}

impl Block {
    /// Fields of constant names.
    pub(crate) fn fields<const N: usize>(fields: [(&str, String); N]) -> Self {
        Self::Fields(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// Rows of cells below named columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
    /// Shown where there are no rows.
    empty: &'static str,
}

impl Table {
    /// A table; `empty` is the sentence in place of no rows.
    pub(crate) fn new<const N: usize>(
        columns: &'static [Column; N],
        rows: impl Iterator<Item = [String; N]>,
        empty: &'static str,
    ) -> Self {
        Self { columns, rows: rows.map(Vec::from).collect(), empty }
    }
}

/// A column: its name and what it holds.
#[derive(Debug)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) Kind);

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words, wrapped where the terminal is narrow.
    Words,
    /// What is useless in pieces: identifiers and addresses.
    Whole,
    /// Numbers, to the right.
    Number,
    /// A state, coloured.
    State,
}

/// What the output goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Columns; none: not limited.
    pub(crate) width: Option<u16>,
    /// Whether colours are wanted.
    pub(crate) colour: bool,
}

impl Screen {
    /// Standard output.
    pub(crate) fn of_stdout() -> Self {
        let terminal = stdout().is_terminal();
        let size = terminal_size::terminal_size().filter(|_| terminal);
        let choice = anstream::AutoStream::choice(&stdout());
        Self { width: size.map(|(width, _)| width.0), colour: choice != anstream::ColorChoice::Never }
    }
}

/// Prints an output on standard output. That its reader went away is no error.
pub(crate) fn print(output: &Output, view: &View) -> Result<(), CliError> {
    let text = render(output, view, Screen::of_stdout());
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::system("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// The text of an output, every line ended.
pub(crate) fn render(output: &Output, view: &View, screen: Screen) -> String {
    let mut text = String::new();
    if view.json {
        push_lines(&mut text, &format!("{:#}", output.json), view);
        return text;
    }
    for section in output.blocks.chunk_by(|_, next| !matches!(next, Block::Heading(_))) {
        push_section(&mut text, section, view, screen);
    }
    text
}

/// Blocks up to the next heading. A heading is shown where anything below it is.
fn push_section(text: &mut String, section: &[Block], view: &View, screen: Screen) {
    let (heading, blocks) = match section {
        [Block::Heading(heading), blocks @ ..] => (Some(heading), blocks),
        blocks => (None, blocks),
    };
    let shown: Vec<_> =
        blocks.iter().map(|block| block_text(block, view, screen)).filter(|text| !text.is_empty()).collect();
    if !text.is_empty() && view.find.is_empty() {
        text.push('\n');
    }
    if let Some(heading) = heading.filter(|heading| !shown.is_empty() || view.shows(heading)) {
        text.push_str(&bold(heading, screen));
        text.push('\n');
    }
    text.push_str(&shown.join(if view.find.is_empty() { "\n" } else { "" }));
}

fn block_text(block: &Block, view: &View, screen: Screen) -> String {
    let mut text = String::new();
    match block {
        Block::Text(lines) | Block::Heading(lines) => push_lines(&mut text, lines, view),
        Block::Fields(fields) => push_fields(&mut text, fields, view),
        Block::Table(table) => push_table(&mut text, table, view, screen),
    }
    text
}

/// A number with a comma between thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bold(text: &str, screen: Screen) -> String {
    if screen.colour {
        let bold = anstyle::Style::new().bold();
        format!("{bold}{text}{bold:#}")
    } else {
        text.to_owned()
    }
}

fn push_lines(text: &mut String, lines: &str, view: &View) {
    for line in lines.lines().filter(|line| view.shows(line)) {
        text.push_str(line);
        text.push('\n');
    }
}

fn push_fields(text: &mut String, fields: &[(String, String)], view: &View) {
    let fields: Vec<_> =
        fields.iter().filter(|(name, value)| view.shows(&format!("{name}: {value}"))).collect();
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in fields {
        text.push_str(format!("{name:width$}: {value}").trim_end());
        text.push('\n');
    }
}

/// Of a filtered table the rows that have the words in any of their cells, below the header.
fn push_table(text: &mut String, table: &Table, view: &View, screen: Screen) {
    let rows: Vec<_> = table.rows.iter().filter(|row| view.shows(&row.join(" "))).collect();
    if rows.is_empty() {
        if view.find.is_empty() {
            text.push_str(table.empty);
            text.push('\n');
        }
        return;
    }
    if screen.width.is_some_and(|width| narrowest(table.columns, &rows) > width.into()) {
        push_records(text, table.columns, &rows);
    } else {
        push_grid(text, table.columns, &rows, screen);
    }
}

/// Columns of a terminal on which a table can still be read.
fn narrowest(columns: &[Column], rows: &[&Vec<String>]) -> usize {
    let widths = columns.iter().enumerate().map(|(position, column)| {
        let cells = rows.iter().filter_map(|row| row.get(position)).flat_map(|cell| cell.lines());
        let widest = cells.chain([column.0]).map(|line| line.chars().count()).max().unwrap_or(0);
        if column.1 == Kind::Words { widest.min(READABLE).max(column.0.len()) } else { widest }
    });
    widths.sum::<usize>() + usize::from(GAP) * columns.len().saturating_sub(1)
}

/// Each row as fields, a blank line between rows.
fn push_records(text: &mut String, columns: &[Column], rows: &[&Vec<String>]) {
    for (position, row) in rows.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        let fields = columns.iter().zip(row.iter());
        let fields: Vec<_> =
            fields.map(|(column, value)| (column.0.to_owned(), value.replace('\n', ", "))).collect();
        push_fields(text, &fields, &View::default());
    }
}

fn push_grid(text: &mut String, columns: &[Column], rows: &[&Vec<String>], screen: Screen) {
    let mut grid = Grid::new();
    // Whether standard output is a terminal was decided when the screen was made.
    grid.load_style(NOTHING).force_no_tty();
    if screen.colour {
        grid.enforce_styling();
    }
    if let Some(width) = screen.width {
        grid.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    grid.set_header(columns.iter().map(|column| Cell::new(column.0).add_attribute(Attribute::Bold)));
    for row in rows {
        grid.add_row(row.iter().zip(columns).map(|(value, column)| cell(value, column.1)));
    }
    for (position, column) in columns.iter().enumerate() {
        if let Some(drawn) = grid.column_mut(position) {
            drawn.set_padding((0, if position + 1 < columns.len() { GAP } else { 0 }));
            if column.1 == Kind::Number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
            if column.1 != Kind::Words {
                drawn.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
    for line in grid.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn cell(value: &str, kind: Kind) -> Cell {
    let cell = Cell::new(value);
    if kind != Kind::State {
        return cell;
    }
    let first = value.split([' ', '\n']).next().unwrap_or_default();
    match first {
        "up" | "reachable" | "resolved" => cell.fg(comfy_table::Color::Green),
        "down" | "failed" | "unresolved" => cell.fg(comfy_table::Color::Red),
        "stale" | "probe" | "incomplete" => cell.fg(comfy_table::Color::Yellow),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen { width: None, colour: false };
    const COLUMNS: [Column; 4] = [
        Column("ID", Kind::Whole),
        Column("State", Kind::State),
        Column("Packets", Kind::Number),
        Column("Meaning", Kind::Words),
    ];

    fn table() -> Output {
        let rows = [["a-1", "up", "1,234", "one two three four"], ["b-2", "down", "5", "five"]];
        let rows = rows.into_iter().map(|row| row.map(str::to_owned));
        let blocks = vec![Block::Table(Table::new(&COLUMNS, rows, "There is nothing."))];
        Output { blocks, json: serde_json::json!([{"id": "a-1"}, {"id": "b-2"}]) }
    }

    fn find(word: &str) -> View {
        View { find: vec![word.to_owned()], ..View::default() }
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (123_456, "123,456")] {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let expected = "\
ID   State  Packets  Meaning
a-1  up       1,234  one two three four
b-2  down         5  five
";
        assert_eq!(render(&table(), &View::default(), PLAIN), expected);
    }

    #[test]
    fn too_narrow_a_terminal_gets_a_line_for_each_field() {
        let expected = "\
ID     : a-1
State  : up
Packets: 1,234
Meaning: one two three four

ID     : b-2
State  : down
Packets: 5
Meaning: five
";
        assert_eq!(render(&table(), &View::default(), Screen { width: Some(30), colour: false }), expected);
    }

    #[test]
    fn a_narrow_terminal_wraps_words_and_nothing_else() {
        let text = render(&table(), &View::default(), Screen { width: Some(38), colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= 38), "{text}");
        for whole in ["a-1", "down", "1,234"] {
            assert!(text.contains(whole), "{whole} in\n{text}");
        }
        assert!(!text.contains("one two three four"), "{text}");
    }

    #[test]
    fn find_keeps_rows_below_the_header_and_lines_of_json() {
        assert_eq!(
            render(&table(), &find("FIVE"), PLAIN),
            "ID   State  Packets  Meaning\nb-2  down         5  five\n"
        );
        assert_eq!(render(&table(), &find("nowhere"), PLAIN), "");
        assert_eq!(render(&table(), &View { json: true, ..find("b-2") }, PLAIN), "    \"id\": \"b-2\"\n");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        let coloured = render(&table(), &View::default(), Screen { width: None, colour: true });
        assert!(coloured.contains("\u{1b}["), "{coloured}");
        assert!(!render(&table(), &View::default(), PLAIN).contains('\u{1b}'));
    }

    #[test]
    fn fields_are_aligned_by_the_longest_that_is_shown() {
        let blocks =
            vec![Block::fields([("Rx_ring_size", "512".into()), ("Slowpath_ring_size", "1024".into())])];
        let output = Output { blocks, json: Value::Null };
        assert_eq!(
            render(&output, &View::default(), PLAIN),
            "Rx_ring_size      : 512\nSlowpath_ring_size: 1024\n"
        );
        assert_eq!(render(&output, &find("512"), PLAIN), "Rx_ring_size: 512\n");
    }

    #[test]
    fn no_rows_are_a_sentence() {
        let blocks = vec![Block::Table(Table::new(&COLUMNS, std::iter::empty(), "There is nothing."))];
        let output = Output { blocks, json: Value::Array(Vec::new()) };
        assert_eq!(render(&output, &View::default(), PLAIN), "There is nothing.\n");
    }
}
