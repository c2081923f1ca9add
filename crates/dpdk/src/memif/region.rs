//! Memory that two processes share: made here and given away as a file, or taken from the peer's file.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::fstat;
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};
use nix::unistd::ftruncate;

/// Bytes of a huge page, the most common size.
const HUGE_PAGE: usize = 2 << 20;

/// Memory that both sides read and write. All access is through pointers: another process may change it at any time.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    length: usize,
    /// Whether it was mapped for this; packet memory that is lent is not.
    mapped: bool,
}

// SAFETY: a region is an address range that stays valid while it exists; what is done with it is up to the rings' single owners.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// New memory of zeros and the file that it is in, which can neither shrink nor grow. It is in huge pages where there are free ones: each
    /// buffer lies in another ordinary page, and more of them are in use than a core remembers the addresses of.
    pub(super) fn create(length: usize) -> Result<(OwnedFd, Self), Errno> {
        let huge = length.next_multiple_of(HUGE_PAGE);
        Self::create_in(MFdFlags::MFD_HUGETLB, huge).or_else(|_| Self::create_in(MFdFlags::empty(), length))
    }

    fn create_in(pages: MFdFlags, length: usize) -> Result<(OwnedFd, Self), Errno> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(c"memif", flags | pages)?;
        ftruncate(&file, length as i64)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        let region = Self::map(file.as_fd(), length)?;
        Ok((file, region))
    }

    /// The memory of a peer's file, which has at least `length` octets.
    pub(super) fn of_file(file: BorrowedFd<'_>, length: u64) -> Result<Self, Errno> {
        let size = u64::try_from(fstat(file)?.st_size).map_err(|_| Errno::EINVAL)?;
        if length > size {
            return Err(Errno::ENXIO);
        }
        Self::map(file, usize::try_from(length).map_err(|_| Errno::ENOMEM)?)
    }

    /// Whether a peer's file stays as long as it is, sealed by the peer or now: access behind its end would end this process. A file in huge
    /// pages need not, since packet memory of DPDK's that is lent cannot be sealed.
    pub(super) fn stays(file: BorrowedFd<'_>) -> bool {
        let shrink = SealFlag::F_SEAL_SHRINK;
        let sealed = fcntl(file, FcntlArg::F_GET_SEALS)
            .is_ok_and(|seals| SealFlag::from_bits_truncate(seals).contains(shrink));
        sealed
            || fcntl(file, FcntlArg::F_ADD_SEALS(shrink)).is_ok()
            || fstatfs(file).is_ok_and(|system| system.filesystem_type() == HUGETLBFS_MAGIC)
    }

    /// Memory of this process that is lent to the peer.
    ///
    /// # Safety
    /// It stays mapped for as long as the region exists.
    pub(super) unsafe fn lend(base: NonNull<u8>, length: usize) -> Self {
        Self { base, length, mapped: false }
    }

    fn map(file: BorrowedFd<'_>, length: usize) -> Result<Self, Errno> {
        let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses where, so that nothing is replaced; the range is ours until it is unmapped in `drop`.
        let base = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self { base: base.cast(), length, mapped: true })
    }

    /// Octets of it.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where `length` octets begin that lie `offset` octets inside; none if they do not all.
    #[inline(always)]
    pub(super) fn at(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        (offset <= self.length && length <= self.length - offset).then(|| {
            // SAFETY: inside the region, as was just checked.
            unsafe { self.base.add(offset) }
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: it was mapped with this length, and whoever has a pointer into it holds the region.
            let _ = unsafe { munmap(self.base.cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_octets_and_no_file_can_lie_about_its_length() {
        for pages in [MFdFlags::MFD_HUGETLB, MFdFlags::empty()] {
            let Ok((file, ours)) = Region::create_in(pages, HUGE_PAGE) else {
                assert_eq!(pages, MFdFlags::MFD_HUGETLB, "ordinary pages are always there");
                continue;
            };
            shares(&file, &ours);
        }
    }

    #[test]
    fn ordinary_memory_that_could_be_cut_off_is_known() {
        let sealable = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&sealable, 4096).unwrap();
        assert!(Region::stays(sealable.as_fd()));
        assert_eq!(ftruncate(&sealable, 0), Err(Errno::EPERM), "it was sealed");
        let open = memfd_create(c"test", MFdFlags::empty()).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(!Region::stays(open.as_fd()));
    }

    fn shares(file: &OwnedFd, ours: &Region) {
        let theirs = Region::of_file(file.as_fd(), 8192).unwrap();
        // SAFETY: both pointers are within their regions, which live on; one thread uses them.
        unsafe {
            ours.at(8191, 1).unwrap().write(7);
            assert_eq!(theirs.at(8191, 1).unwrap().read(), 7);
        }
        for (offset, length) in [(8192, 1), (0, 8193), (usize::MAX, 2), (2, usize::MAX)] {
            assert_eq!(theirs.at(offset, length), None, "{offset} {length}");
        }
        assert!(theirs.at(8192, 0).is_some());
        let too_long = ours.length() as u64 + 1;
        assert_eq!(Region::of_file(file.as_fd(), too_long).unwrap_err(), Errno::ENXIO);
        assert_eq!(Region::of_file(file.as_fd(), 0).unwrap_err(), Errno::EINVAL);
        assert_eq!(ftruncate(file, 0), Err(Errno::EPERM), "memory cannot be taken from under the peer");
    }
}
