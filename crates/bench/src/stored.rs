//! `sluice bench show` and `sluice bench compare`: reports of runs that are over.

use std::process::ExitCode;

use crate::command::{CompareArguments, ShowArguments};
use crate::error::Result;
use crate::report::compare::Comparison;
use crate::report::terminal::{Screen, render};
use crate::report::{OutputFile, html, read_file};

/// Shows a report again, in any form.
pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let page = arguments.html.as_deref().map(OutputFile::check).transpose()?;
    let report = read_file(&arguments.report)?;
    if let Some(page) = page {
        page.write(&html::page(&report))?;
    }
    if arguments.json {
        print!("{}", report.to_json());
    } else {
        print!("{}", render(&report, Screen::of_stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares two reports. The exit code is 1 where something became worse.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<ExitCode> {
    let (a, b) = (read_file(&arguments.a)?, read_file(&arguments.b)?);
    let (a_name, b_name) = (arguments.a.display().to_string(), arguments.b.display().to_string());
    let comparison = Comparison::of((&a_name, &a), (&b_name, &b), arguments.least_change)?;
    if arguments.json {
        print!("{}", comparison.to_json());
    } else {
        print!("{}", comparison.render(Screen::of_stdout()));
    }
    Ok(if comparison.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::report::compare::LEAST_CHANGE;
    use crate::report::{Column, Report, Row, Section, Table};

    fn report(rate: f64) -> Report {
        let mut table = Table::new([Column::measured("rate", "rate", "Mpps").higher_is_better()]);
        table.push(Row::new().measured("rate", [rate, rate * 1.001, rate * 0.999]));
        let mut report = Report::start("s", "t");
        report.section(Section::new("s", "s").table(table));
        report.finish();
        report
    }

    fn compared(a: &Path, b: &Path) -> Result<ExitCode> {
        compare(&CompareArguments { a: a.into(), b: b.into(), least_change: LEAST_CHANGE, json: true })
    }

    #[test]
    fn the_exit_code_says_whether_something_is_worse() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, rate) in [("fast", 10.0), ("slow", 8.0)] {
            let report = report(rate);
            std::fs::write(path(name).with_extension("json"), report.to_json()).unwrap();
            std::fs::write(path(name).with_extension("html"), html::page(&report)).unwrap();
        }
        for (a, b, code) in [
            ("fast.json", "slow.json", ExitCode::FAILURE),
            ("slow.json", "fast.json", ExitCode::SUCCESS),
            ("fast.html", "fast.json", ExitCode::SUCCESS),
            ("fast.json", "slow.html", ExitCode::FAILURE),
        ] {
            assert_eq!(compared(&path(a), &path(b)).unwrap(), code, "{a} {b}");
        }
        std::fs::write(path("other.json"), "{}").unwrap();
        let error = compared(&path("fast.json"), &path("other.json")).unwrap_err().to_string();
        assert!(error.contains("other.json is no report of `sluice bench`"), "{error}");
    }

    #[test]
    fn a_report_is_shown_as_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let (json, page) = (folder.path().join("a.json"), folder.path().join("a.html"));
        let report = report(10.0);
        std::fs::write(&json, report.to_json()).unwrap();
        show(&ShowArguments { report: json, html: Some(page.clone()), json: true }).unwrap();
        assert_eq!(read_file(&page).unwrap(), report);
    }
}
