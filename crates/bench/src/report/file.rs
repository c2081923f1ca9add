//! Reports in files: written so that no half file is ever left, read whether they are JSON or a page.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::html::embedded_json;
use super::model::{FORMAT, Report};

/// Permissions of a new file, less what the umask takes.
const MODE: u32 = 0o666;

/// Why a report cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The folder is missing.
    #[error("{file} cannot be written: there is no folder {folder}; create it or name another file")]
    NoFolder {
        /// The file.
        file: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// Something is there that is no file.
    #[error("{file} cannot be written: it is there and no ordinary file; name another one")]
    NotAFile {
        /// What is there.
        file: PathBuf,
    },
    /// The system refused.
    #[error("{file} cannot be written: {source}; what was there before is unchanged")]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("{file} cannot be read: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is something else.
    #[error("{file} is no report of `sluice bench` ({reason}); name a file that --json or --html wrote")]
    NotAReport {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is of a later program.
    #[error("{file} has the format {format}, which this version of sluice cannot read; it reads {FORMAT}")]
    Later {
        /// The file.
        file: PathBuf,
        /// The format that it says.
        format: String,
    },
}

/// A file that a report will be written to. It is checked before the run, since nobody wants to learn after an hour that the folder is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    path: PathBuf,
    folder: PathBuf,
}

impl OutputFile {
    /// Checks that the file can be written, by making a temporary one beside it.
    ///
    /// # Errors
    ///
    /// The folder is missing or cannot be written to, or something else than a file has the name.
    pub fn check(path: &Path) -> Result<Self, FileError> {
        // A symbolic link stays one: what it points at is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) || target.file_name().is_none() {
            return Err(FileError::NotAFile { file: path.to_owned() });
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            return Err(FileError::NoFolder { file: path.to_owned(), folder });
        }
        let output = Self { path: target, folder };
        output.temporary().map_err(|source| output.failed(source))?;
        Ok(output)
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file as a whole or not at all.
    ///
    /// # Errors
    ///
    /// The system refused, for example since the disk is full. What was there before is unchanged.
    pub fn write(&self, text: &str) -> Result<(), FileError> {
        self.write_with(|file| file.write_all(text.as_bytes()))
    }

    fn write_with(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), FileError> {
        let write = || {
            let mut file = self.temporary()?;
            fill(file.as_file_mut())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|source| self.failed(source))
    }

    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new()
            .prefix(".sluice-bench-")
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(&self.folder)
    }

    fn failed(&self, source: io::Error) -> FileError {
        FileError::Write { file: self.path.clone(), source }
    }
}

/// Reads a report from a file, JSON or a page.
///
/// # Errors
///
/// The file cannot be read, is no report, or is of a later program.
pub fn read_file(path: &Path) -> Result<Report, FileError> {
    let bytes = fs::read(path).map_err(|source| FileError::Read { file: path.to_owned(), source })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| FileError::NotAReport { file: path.to_owned(), reason: "it is not text".into() })?;
    read(&text, path)
}

/// Reads a report from text, JSON or a page; `file` names it in errors.
///
/// # Errors
///
/// The text is no report, or is of a later program.
pub fn read(text: &str, file: &Path) -> Result<Report, FileError> {
    let not = |reason: String| FileError::NotAReport { file: file.to_owned(), reason };
    let json = embedded_json(text).unwrap_or(text);
    let value: Value = serde_json::from_str(json).map_err(|error| not(format!("it is not JSON: {error}")))?;
    let Some(format) = value.get("format").and_then(Value::as_str) else {
        return Err(not("it does not name its format".into()));
    };
    if format != FORMAT {
        let (name, _) = FORMAT.split_once('/').unwrap_or((FORMAT, ""));
        return Err(match format.split_once('/') {
            Some((other, _)) if other == name => {
                FileError::Later { file: file.to_owned(), format: format.to_owned() }
            }
            _ => not(format!("its format is {format}")),
        });
    }
    serde_json::from_value(value).map_err(|error| not(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_written_whole_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let output = OutputFile::check(&path).unwrap();
        assert!(names(folder.path()).is_empty(), "the check leaves nothing");
        output.write("first").unwrap();
        output.write("second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(names(folder.path()), ["report.html"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
    }

    #[test]
    fn a_full_disk_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let output = OutputFile::check(&path).unwrap();
        output.write("before").unwrap();
        let error = output.write_with(|file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let sentence = error.unwrap_err().to_string();
        assert!(sentence.contains("no storage space") && sentence.contains("report.html"), "{sentence}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn what_cannot_be_written_is_told_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let missing = OutputFile::check(&folder.path().join("no/such/report.html")).unwrap_err().to_string();
        assert!(
            missing.contains("there is no folder") && missing.ends_with("create it or name another file"),
            "{missing}"
        );
        let directory = OutputFile::check(folder.path()).unwrap_err().to_string();
        assert!(directory.contains("no ordinary file"), "{directory}");
        assert!(matches!(OutputFile::check(Path::new("/dev/null")), Err(FileError::NotAFile { .. })));
        assert!(OutputFile::check(Path::new("")).is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.json"), folder.path().join("link.json"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        OutputFile::check(&link).unwrap().write("new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn files_that_are_no_reports_are_refused_in_one_sentence() {
        let refused = |text: &str| read(text, Path::new("some.json")).unwrap_err().to_string();
        for (text, part) in [
            ("", "it is not JSON"),
            ("<html></html>", "it is not JSON"),
            ("[1, 2]", "does not name its format"),
            (r#"{"format": "something/1"}"#, "its format is something/1"),
            (r#"{"format": "sluice-bench-report/1"}"#, "missing field"),
            (r#"{"format": "sluice-bench-report/7"}"#, "this version of sluice cannot read"),
        ] {
            let sentence = refused(text);
            assert!(sentence.starts_with("some.json ") && sentence.contains(part), "{text}: {sentence}");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
        let missing = read_file(Path::new("/no/such/file.json")).unwrap_err().to_string();
        assert!(missing.starts_with("/no/such/file.json cannot be read: "), "{missing}");
    }
}
