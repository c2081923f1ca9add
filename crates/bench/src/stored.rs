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
