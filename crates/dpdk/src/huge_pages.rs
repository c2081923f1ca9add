//! Whether the kernel would give enough huge pages, found out without taking them. Works for any user, in any namespace.

use std::fs;
use std::path::Path;

use crate::ffi;

const MEBIBYTE: usize = 1 << 20;

/// The largest page size, in bytes, of which the kernel has enough free pages for `mebibytes` of memory; `None` without one.
///
/// A mapping of huge pages reserves them or fails at once, so that trying one is an exact answer: it counts what other processes
/// have reserved but not touched, which `/proc/meminfo` does not.
pub(crate) fn available(mebibytes: u32) -> Option<usize> {
    page_sizes(Path::new("/sys/kernel/mm/hugepages")).into_iter().find(|size| {
        let bytes = (mebibytes as usize * MEBIBYTE).next_multiple_of(*size);
        ffi::sluice_huge_pages_available(bytes, size.trailing_zeros()) == 0
    })
}

/// The machine's huge page sizes in bytes, largest first, from folders named like `hugepages-2048kB`.
fn page_sizes(folder: &Path) -> Vec<usize> {
    let mut sizes: Vec<usize> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| parse_page_size(entry.file_name().to_str()?))
        .collect();
    sizes.sort_unstable_by(|left, right| right.cmp(left));
    sizes
}

fn parse_page_size(name: &str) -> Option<usize> {
    let kibibytes: usize = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kibibytes.checked_mul(1024).filter(|size| size.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_read_from_folder_names_largest_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["hugepages-2048kB", "hugepages-1048576kB", "hugepages-3kB", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(page_sizes(folder.path()), [1 << 30, 2 << 20]);
        assert!(page_sizes(&folder.path().join("missing")).is_empty());
    }

    #[test]
    fn more_huge_pages_than_any_machine_has_are_not_available() {
        assert_eq!(available(u32::MAX), None);
    }
}
