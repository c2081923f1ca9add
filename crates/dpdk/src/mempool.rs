//! Memory pools for packets, shared by the ports that receive into them and by whoever makes packets.

use std::ffi::CString;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;

use crate::ffi::{self, MbufHeader, RawMempool};
use crate::{Eal, Mbuf, MempoolError};

/// Whether a pool was kept because packets of it were still about; the EAL's memory then stays too.
static POOL_KEPT: AtomicBool = AtomicBool::new(false);

/// Bytes that DPDK keeps beside each mbuf's data: its header and the pool's own.
const MBUF_OVERHEAD: u64 = 128 + 64;

/// Sizes of a [`Mempool`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MempoolConfig {
    /// Mbufs in the pool. DPDK uses memory best with 2ⁿ − 1.
    pub count: u32,
    /// Mbufs that each registered thread keeps for itself, 0 to 512.
    pub cache: u32,
    /// Bytes of each mbuf's buffer: 128 bytes headroom, then the frame.
    pub data_room: u16,
    /// NUMA node whose memory is used, any with `None`.
    pub numa_node: Option<u32>,
}

impl Default for MempoolConfig {
    /// 16,383 mbufs for frames up to 2,048 bytes, 256 cached a thread: about 38 MiB.
    fn default() -> Self {
        Self { count: 16_383, cache: 256, data_room: 2048 + ffi::HEADROOM, numa_node: None }
    }
}

/// A pool of packet buffers of one size. Clones are the same pool.
///
/// The pool's memory is given back when its last handle and the last port that receives into it are gone, if all of its mbufs have
/// come back by then; otherwise it stays until the process ends, so that a packet never points to memory that is gone.
#[derive(Debug, Clone)]
pub struct Mempool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: NonNull<RawMempool>,
    name: String,
    config: MempoolConfig,
    /// The memory is EAL's: it stays while the pool does.
    _eal: Eal,
}

// SAFETY: rte_mempool's get, put and counts may be called from any thread (its default ring has several producers and consumers).
unsafe impl Send for Inner {}
// SAFETY: as above; nothing here changes through a shared reference but what rte_mempool itself guards.
unsafe impl Sync for Inner {}

impl Mempool {
    /// Creates a pool.
    ///
    /// # Errors
    /// Names that are taken or cannot be names, sizes out of range, and packet memory that is used up.
    pub fn new(eal: &Eal, name: &str, config: MempoolConfig) -> Result<Self, MempoolError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 25 || !name.bytes().all(plain) {
            return Err(MempoolError::Name(name.to_owned()));
        }
        let text = CString::new(name).map_err(|_| MempoolError::Name(name.to_owned()))?;
        let sizes_fit = config.cache <= 512
            && u64::from(config.cache) * 3 <= u64::from(config.count) * 2
            && config.count > 0
            && config.data_room >= 2 * ffi::HEADROOM;
        if !sizes_fit {
            let MempoolConfig { count, cache, data_room, .. } = config;
            return Err(MempoolError::Sizes { name: name.to_owned(), count, cache, data_room });
        }
        let node = config.numa_node.map_or(ffi::ANY_NUMA_NODE, |node| node.cast_signed());
        let mut error = 0;
        // SAFETY: the EAL runs, since `eal` exists; `text` and `error` live during the call.
        let raw = unsafe {
            let (count, cache, room) = (config.count, config.cache, config.data_room);
            ffi::sluice_mempool_create(text.as_ptr(), count, cache, room, node, &raw mut error)
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self(Arc::new(Inner { raw, name: name.to_owned(), config, _eal: eal.clone() }))),
            None => Err(creation_error(name, &config, error)),
        }
    }

    /// Name of the pool.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sizes that it was created with.
    pub fn config(&self) -> &MempoolConfig {
        &self.0.config
    }

    /// Mbufs that can be allocated now, those in the caches of threads included. Walks the caches: for statistics, not for packets.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { ffi::sluice_mempool_available(self.raw()) }
    }

    /// Mbufs that hold packets, or wait in a port's receive ring. Walks the caches: for statistics, not for packets.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { ffi::sluice_mempool_in_use(self.raw()) }
    }

    /// An empty packet with 128 bytes of headroom; `None` when the pool is empty.
    #[inline]
    pub fn allocate(&self) -> Option<Mbuf> {
        let mut one: ArrayVec<Mbuf, 1> = ArrayVec::new();
        self.allocate_bulk(&mut one, 1);
        one.pop()
    }

    /// A packet with these bytes; `None` when the pool is empty or a mbuf too small.
    pub fn allocate_with(&self, bytes: &[u8]) -> Option<Mbuf> {
        let mut mbuf = self.allocate()?;
        mbuf.extend_back(bytes.len())?.copy_from_slice(bytes);
        Some(mbuf)
    }

    /// Appends `count` empty packets to `batch`, or none when the pool has not so many or the batch no room. Returns how many.
    #[inline]
    pub fn allocate_bulk<const N: usize>(&self, batch: &mut ArrayVec<Mbuf, N>, count: usize) -> usize {
        let filled = batch.len();
        if count == 0 || count > N - filled {
            return 0;
        }
        // SAFETY: the array has room for `count` more; an Mbuf is a pointer to a rte_mbuf, and on success DPDK has written `count`
        // of them, none of which has another owner. On failure it has written none.
        unsafe {
            let spare: *mut *mut MbufHeader = batch.as_mut_ptr().add(filled).cast();
            if ffi::sluice_mbuf_take(self.raw(), spare.cast(), count as u32) != 0 {
                return 0;
            }
            (0..count).for_each(|at| MbufHeader::begin(spare.add(at).read(), 0));
            batch.set_len(filled + count);
        }
        count
    }

    pub(crate) fn raw(&self) -> *mut RawMempool {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: this was the last handle and no port uses the pool. It is freed only when no mbuf of it exists outside, and without
        // a handle or port none can be allocated any more.
        if unsafe { ffi::sluice_mempool_free_if_full(self.raw.as_ptr()) } == 0 {
            POOL_KEPT.store(true, Ordering::Release);
        }
    }
}

/// Whether packets may exist whose pool has no handle any more.
pub(crate) fn pool_kept() -> bool {
    POOL_KEPT.load(Ordering::Acquire)
}

fn creation_error(name: &str, config: &MempoolConfig, errno: i32) -> MempoolError {
    let name = name.to_owned();
    match io::Error::from_raw_os_error(errno).kind() {
        io::ErrorKind::AlreadyExists => MempoolError::Exists(name),
        io::ErrorKind::OutOfMemory => {
            let bytes = u64::from(config.count) * (u64::from(config.data_room) + MBUF_OVERHEAD);
            MempoolError::OutOfMemory { name, mebibytes: bytes.div_ceil(1 << 20) }
        }
        _ => MempoolError::Refused { name, source: io::Error::from_raw_os_error(errno) },
    }
}
