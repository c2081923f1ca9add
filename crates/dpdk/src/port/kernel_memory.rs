//! What an AF_XDP port shares with the kernel: sockets, and a pool of packet memory that is the kernel's to fill.
//!
//! DPDK's driver closes its sockets only in part and never takes back the buffers that it gave to the kernel, so that an interface could be
//! opened once in the life of a process. So each such port has a pool that nobody but the driver takes packets of: what is received is copied
//! into the pool that everyone shares ([`crate::RxQueue::receive`]), and what is sent the driver copies. When the port is gone, every buffer of
//! its pool that is not there was the kernel's, and is put back.

use std::os::fd::RawFd;
use std::time::Duration;

use nix::libc;

use crate::ffi;
use crate::{Eal, Mempool, MempoolConfig, MempoolError};

/// Slots of each ring between the driver and the kernel.
const RING: u32 = 2048;
/// Buffers of a queue: those that the kernel may fill or has filled; those that are to be sent; those that were sent, of which the driver
/// hears only when it sends again; and those in the caches of cores. With fewer, a queue that has sent much and sends no more can
/// receive nothing for want of buffers.
const BUFFERS: u32 = 4 * RING;

/// How long the kernel may take to let go of an interface whose sockets were closed, of which it tells nobody: usually some milliseconds.
pub(super) const RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two attempts to open one.
pub(super) const RETRY: Duration = Duration::from_millis(20);

/// A pool that only a driver and the kernel use.
#[derive(Debug)]
pub(super) struct KernelMemory {
    pool: Mempool,
    sockets: Vec<KernelSocket>,
}

/// An AF_XDP socket of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelSocket {
    descriptor: RawFd,
    inode: u64,
}

impl KernelMemory {
    /// Memory for a port with so many queues and descriptors, with buffers as large as those of `shared`.
    pub(super) fn new(
        eal: &Eal,
        port: u16,
        queues: u16,
        descriptors: u16,
        shared: &Mempool,
    ) -> Result<Self, MempoolError> {
        let count = u32::from(queues.max(1)) * (BUFFERS + u32::from(descriptors));
        let config = MempoolConfig { count, ..shared.config().clone() };
        Ok(Self { pool: Mempool::new(eal, &format!("kernel-{port}"), config)?, sockets: Vec::new() })
    }

    /// Does what opens sockets, with the pool that the driver is to receive into, and remembers them.
    pub(super) fn watch(&mut self, open: impl FnOnce(&Mempool) -> i32) -> i32 {
        let before = sockets();
        let result = open(&self.pool);
        self.sockets.extend(sockets().into_iter().filter(|socket| !before.contains(socket)));
        result
    }

    /// Ends the kernel's use of the pool. The device must have been removed.
    pub(super) fn release(self) {
        let open = sockets();
        for socket in self.sockets.iter().filter(|socket| open.contains(socket)) {
            // SAFETY: the driver that opened it is gone and left it; nobody else knows of it.
            unsafe { libc::close(socket.descriptor) };
        }
        // An attempt to open the interface before the kernel has let go of it fails, and the library leaves files open by it.
        std::thread::sleep(RETRY);
        // SAFETY: the driver is gone, the kernel's sockets are closed, and no packet of the pool was ever handed out.
        unsafe { ffi::sluice_mempool_put_back(self.pool.raw()) };
    }
}

/// The AF_XDP sockets of this process.
fn sockets() -> Vec<KernelSocket> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let socket = |entry: std::fs::DirEntry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        let descriptor: RawFd = entry.file_name().to_str()?.parse().ok()?;
        is_af_xdp(descriptor).then_some(KernelSocket { descriptor, inode })
    };
    entries.flatten().filter_map(socket).collect()
}

fn is_af_xdp(descriptor: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `domain`; a descriptor that is no socket is refused.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut length,
        )
    };
    result == 0 && domain == libc::AF_XDP
}
