//! Keeps the files of EAL's memory open where a driver closes them.
//!
//! A memif client that shares its memory passes EAL's own file descriptors to the server and then closes them, once for each
//! connection, although EAL goes on using them (DPDK 22.11 and later). The second such port would pass whatever file has taken the
//! number by then, and its close would hit that file. So while such a port connects, one at a time, the descriptors are checked
//! before, and after it each one that is gone is opened again under its number. The control thread calls this when it starts a port.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{PortError, ffi};

/// Most files that EAL's memory is in: one a page size and NUMA node, a few when it grows.
const MOST_FILES: usize = 64;

/// Duplicates are kept from this number on, out of the way of the numbers that come and go.
const LEAST_DUPLICATE: c_int = 256;

/// Device and number of a file.
type Identity = [u64; 2];

static FILES: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A file of EAL's memory, kept for the life of the process as its memory is.
#[derive(Debug)]
struct File {
    /// EAL's descriptor, which the driver closes.
    number: c_int,
    identity: Identity,
    /// Ours of the same file.
    duplicate: c_int,
}

/// While it exists no other port connects; when it is dropped the descriptors are whole again.
#[derive(Debug)]
pub(crate) struct Guard(MutexGuard<'static, Vec<File>>);

/// Checks that all of EAL's descriptors are its own, and remembers them.
///
/// # Errors
/// [`PortError::ZeroCopy`] if another file has taken the number of one that a driver closed.
pub(crate) fn guard(port: &str) -> Result<Guard, PortError> {
    let failed = |reason| PortError::ZeroCopy { port: port.to_owned(), reason };
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut numbers: [c_int; MOST_FILES] = [0; MOST_FILES];
    // SAFETY: the array has as many elements as are stated.
    let count = unsafe { ffi::sluice_memory_files(numbers.as_mut_ptr(), MOST_FILES as u32) };
    let count = usize::try_from(count)
        .map_err(|_| failed("packet memory has no files to share: let the port copy"))?;
    for &number in &numbers[..count] {
        let identity = identity(number);
        match files.iter().find(|file| file.number == number) {
            Some(known) if Some(known.identity) == identity => {}
            None => files.push(
                identity
                    .and_then(|identity| {
                        duplicate(number, LEAST_DUPLICATE).map(|duplicate| File {
                            number,
                            identity,
                            duplicate,
                        })
                    })
                    .ok_or_else(|| {
                        failed(
                            "the files of packet memory cannot be kept open: raise the limit of open files",
                        )
                    })?,
            ),
            Some(_) => {
                return Err(failed(
                    "a file of packet memory was lost: restart the process, or let the port copy",
                ));
            }
        }
    }
    Ok(Guard(files))
}

impl Drop for Guard {
    fn drop(&mut self) {
        for file in self.0.iter().filter(|file| identity(file.number).is_none()) {
            // Takes the number if it is free. If another thread was faster the next `guard` finds out and refuses.
            if let Some(number) = duplicate(file.duplicate, file.number)
                && number != file.number
            {
                // SAFETY: we have just opened it and nobody else knows the number.
                unsafe { ffi::sluice_file_close(number) };
            }
        }
    }
}

fn identity(number: c_int) -> Option<Identity> {
    let mut identity = [0; 2];
    // SAFETY: the array has the two elements that are written; a number that is no file gives an error.
    (unsafe { ffi::sluice_file_identity(number, identity.as_mut_ptr()) } == 0).then_some(identity)
}

fn duplicate(number: c_int, least: c_int) -> Option<c_int> {
    let duplicate = ffi::sluice_file_duplicate(number, least);
    (duplicate >= 0).then_some(duplicate)
}
