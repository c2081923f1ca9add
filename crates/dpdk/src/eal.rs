//! The environment abstraction layer (EAL): DPDK's memory, buses and threads, started once in a process.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::log::{self, LogLevel, LogSink};
use crate::{CoreError, CoreSet, EalError, ffi, huge_pages, mempool};

/// An EAL does not start a second time in a process, not even after it was cleaned up.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Least packet memory that the EAL itself starts with, MiB.
const MIN_MEBIBYTES: u32 = 32;

/// Whether packet memory is in huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Huge pages where the kernel has enough free ones, ordinary pages otherwise.
    #[default]
    Automatic,
    /// Huge pages, or an error. NICs on PCI without an IOMMU need them.
    Required,
    /// Ordinary pages.
    Off,
}

/// What packet memory was really taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBacking {
    /// Huge pages; the size is the largest of which there were enough.
    HugePages {
        /// Bytes a page.
        page_size: usize,
    },
    /// Ordinary pages of 4 KiB.
    OrdinaryPages,
}

impl fmt::Display for MemoryBacking {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HugePages { page_size } => write!(formatter, "huge pages of {} MiB", page_size >> 20),
            Self::OrdinaryPages => formatter.write_str("ordinary pages"),
        }
    }
}

/// How the EAL starts.
pub struct EalOptions {
    /// Packet memory, MiB, at least 32. A limit with ordinary pages; with huge pages what is taken at start, which can grow.
    pub memory_mebibytes: u32,
    /// Whether it is in huge pages.
    pub huge_pages: HugePages,
    /// Core to which the calling thread is pinned; with `None` it stays free to run anywhere.
    pub main_core: Option<usize>,
    /// PCI devices that may be used, as `0000:3b:00.0`. With none the PCI bus is not even looked at.
    pub pci_devices: Vec<String>,
    /// With a prefix, DPDK's tools can attach to the process (shared files and telemetry under its run directory); without, nothing
    /// is left in the file system.
    pub file_prefix: Option<String>,
    /// Least severe lines that reach `log`.
    pub log_level: LogLevel,
    /// Receives EAL's and the drivers' log, one line a call, from any thread. Without it the log is quiet.
    pub log: Option<LogSink>,
}

impl Default for EalOptions {
    /// 256 MiB, huge pages where there are some, no PCI devices, no shared files, quiet.
    fn default() -> Self {
        Self {
            memory_mebibytes: 256,
            huge_pages: HugePages::default(),
            main_core: None,
            pci_devices: Vec::new(),
            file_prefix: None,
            log_level: LogLevel::Warning,
            log: None,
        }
    }
}

impl fmt::Debug for EalOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EalOptions")
            .field("memory_mebibytes", &self.memory_mebibytes)
            .field("huge_pages", &self.huge_pages)
            .field("main_core", &self.main_core)
            .field("pci_devices", &self.pci_devices)
            .field("file_prefix", &self.file_prefix)
            .field("log_level", &self.log_level)
            .finish_non_exhaustive()
    }
}

/// The running EAL. Clones are the same; ports, pools and registered threads hold one, and the last cleans up.
#[derive(Debug, Clone)]
pub struct Eal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backing: MemoryBacking,
    pci_devices: Vec<String>,
    /// Cores that the process had before EAL pinned its main thread.
    cores: CoreSet,
}

impl Eal {
    /// Starts the EAL on the calling thread.
    ///
    /// Options that are wrong in themselves are found before anything is touched, and may be corrected and tried again. Once the EAL
    /// has been asked, the process has had its one start.
    ///
    /// # Errors
    /// A second start, a core that does not exist, missing huge pages, addresses and names that are none, and EAL's own refusal.
    pub fn init(options: EalOptions) -> Result<Self, EalError> {
        let EalOptions { memory_mebibytes, huge_pages, main_core, pci_devices, file_prefix, log_level, log } =
            options;
        check(memory_mebibytes, main_core, &pci_devices, file_prefix.as_deref())?;
        let backing = choose_backing(huge_pages, memory_mebibytes)?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(EalError::AlreadyStarted);
        }
        log::open(log_level, log);
        let mut arguments =
            arguments(backing, memory_mebibytes, main_core, &pci_devices, file_prefix.as_deref());
        if log_level > LogLevel::Notice {
            // Each driver has a level of its own, which stays at notice when only the global one is raised.
            arguments.push(format!("--log-level=*:{}", log_level.to_dpdk()));
        }
        let cores = CoreSet::available();
        start(&arguments)?;
        Ok(Self(Arc::new(Inner { backing, pci_devices, cores })))
    }

    /// What packet memory was taken from.
    pub fn memory_backing(&self) -> MemoryBacking {
        self.0.backing
    }

    /// Version of DPDK that runs, such as `DPDK 22.11.7`.
    pub fn version(&self) -> String {
        // SAFETY: rte_version returns a string that is never changed or freed.
        unsafe { CStr::from_ptr(ffi::sluice_version()) }.to_string_lossy().into_owned()
    }

    /// Frequency of the time-stamp counter that [`crate::cycles`] reads, Hz.
    pub fn cycles_per_second(&self) -> u64 {
        ffi::sluice_cycles_per_second()
    }

    /// Cores for threads that handle no packets.
    pub(crate) fn cores(&self) -> &CoreSet {
        &self.0.cores
    }

    /// Whether a PCI device was allowed at start.
    pub(crate) fn allows_pci(&self, address: &str) -> bool {
        self.0.pci_devices.iter().any(|allowed| allowed.eq_ignore_ascii_case(address))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if mempool::pool_kept() {
            // A packet may outlive its pool's handles: its memory stays until the process ends.
            return;
        }
        // SAFETY: no port, pool or registered thread is left, since each holds a handle, and no packet, since no pool was kept.
        unsafe { ffi::sluice_eal_cleanup() };
    }
}

/// Whether a text is a full PCI address, `dddd:bb:dd.f` in hexadecimal.
pub(crate) fn is_pci_address(text: &str) -> bool {
    let fits =
        |(byte, pattern): (u8, u8)| if pattern == b'h' { byte.is_ascii_hexdigit() } else { byte == pattern };
    text.len() == 12 && text.bytes().zip(*b"hhhh:hh:hh.h").all(fits)
}

fn check(
    mebibytes: u32,
    main_core: Option<usize>,
    pci: &[String],
    prefix: Option<&str>,
) -> Result<(), EalError> {
    if mebibytes < MIN_MEBIBYTES {
        return Err(EalError::TooLittleMemory(mebibytes));
    }
    if let Some(core) = main_core {
        let available = CoreSet::available();
        if !available.contains(core) {
            return Err(CoreError::Unknown { core, available }.into());
        }
    }
    if let Some(address) = pci.iter().find(|address| !is_pci_address(address)) {
        return Err(EalError::PciAddress(address.clone()));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match prefix {
        Some(prefix) if prefix.is_empty() || !prefix.bytes().all(plain) => {
            Err(EalError::FilePrefix(prefix.to_owned()))
        }
        _ => Ok(()),
    }
}

fn choose_backing(wanted: HugePages, mebibytes: u32) -> Result<MemoryBacking, EalError> {
    if wanted == HugePages::Off {
        return Ok(MemoryBacking::OrdinaryPages);
    }
    match (huge_pages::available(mebibytes), wanted) {
        (Some(page_size), _) => Ok(MemoryBacking::HugePages { page_size }),
        (None, HugePages::Required) => Err(EalError::NoHugePages { mebibytes, pages: mebibytes.div_ceil(2) }),
        (None, _) => Ok(MemoryBacking::OrdinaryPages),
    }
}

/// EAL's command line.
fn arguments(
    backing: MemoryBacking,
    mebibytes: u32,
    main_core: Option<usize>,
    pci_devices: &[String],
    file_prefix: Option<&str>,
) -> Vec<String> {
    let cores = match main_core {
        Some(core) => core.to_string(),
        None => CoreSet::available().to_string(),
    };
    let mut arguments = vec!["sluice".to_owned(), format!("--lcores=0@({cores})"), format!("-m{mebibytes}")];
    let mut add = |texts: &[&str]| arguments.extend(texts.iter().map(|text| (*text).to_owned()));
    match (backing, file_prefix) {
        // Shared-memory ports that do not copy lend packet memory by file descriptor: one file for each kind of page.
        (MemoryBacking::HugePages { .. }, None) => {
            add(&["--in-memory", "--single-file-segments", "--no-telemetry"])
        }
        (MemoryBacking::HugePages { .. }, Some(prefix)) => {
            add(&["--single-file-segments", "--file-prefix", prefix])
        }
        (MemoryBacking::OrdinaryPages, None) => add(&["--no-huge", "--no-shconf", "--no-telemetry"]),
        (MemoryBacking::OrdinaryPages, Some(prefix)) => add(&["--no-huge", "--file-prefix", prefix]),
    }
    if backing == MemoryBacking::OrdinaryPages || pci_devices.is_empty() {
        // Virtual addresses need neither physical ones nor privileges.
        add(&["--iova-mode=va"]);
    }
    if pci_devices.is_empty() {
        add(&["--no-pci"]);
    }
    for address in pci_devices {
        add(&["-a", address]);
    }
    arguments
}

fn start(arguments: &[String]) -> Result<(), EalError> {
    // EAL keeps pointers into its arguments and reorders them: they are its own from here on.
    let texts = arguments.iter().filter_map(|text| CString::new(text.as_str()).ok()).map(CString::into_raw);
    let pointers: &mut [*mut c_char] = texts.chain([std::ptr::null_mut()]).collect::<Vec<_>>().leak();
    let count = i32::try_from(pointers.len() - 1).unwrap_or(i32::MAX);
    // SAFETY: the array holds `count` zero-terminated texts and a null pointer, all leaked and so valid for ever; the swap of
    // STARTED lets one thread come here, once.
    match unsafe { ffi::sluice_eal_init(count, pointers.as_mut_ptr()) } {
        0 => Ok(()),
        error => {
            let errno = nix::errno::Errno::from_raw(-error);
            Err(EalError::Refused { reason: log::explain(error), remedy: remedy(errno) })
        }
    }
}

fn remedy(errno: nix::errno::Errno) -> &'static str {
    use nix::errno::Errno;
    match errno {
        Errno::EACCES | Errno::EPERM => {
            "run it as root, or without PCI devices and file prefix, which an ordinary user may"
        }
        Errno::ENOMEM => "free memory or huge pages, or ask for less packet memory",
        Errno::ENODEV | Errno::ENOENT => "check that the allowed PCI devices exist and are bound to vfio-pci",
        Errno::EALREADY => "another part of this process has started DPDK already",
        _ => "set its log level to debug to see more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_full_ones() {
        assert!(is_pci_address("0000:3b:00.0") && is_pci_address("0001:FF:1f.7"));
        for wrong in
            ["3b:00.0", "0000:3b:00", "0000:3b:00:0", "0000.3b.00.0", "000g:3b:00.0", "", "0000:3b:00.00"]
        {
            assert!(!is_pci_address(wrong), "{wrong}");
        }
    }

    #[test]
    fn ordinary_pages_need_no_privileges_and_pci_only_what_was_allowed() {
        let plain = arguments(MemoryBacking::OrdinaryPages, 64, Some(1), &[], None).join(" ");
        assert_eq!(
            plain,
            "sluice --lcores=0@(1) -m64 --no-huge --no-shconf --no-telemetry --iova-mode=va --no-pci"
        );
        let pci = ["0000:3b:00.0".to_owned()];
        let nic =
            arguments(MemoryBacking::HugePages { page_size: 2 << 20 }, 1024, Some(0), &pci, Some("edge"))
                .join(" ");
        assert_eq!(
            nic,
            "sluice --lcores=0@(0) -m1024 --single-file-segments --file-prefix edge -a 0000:3b:00.0"
        );
    }

    #[test]
    fn options_that_cannot_work_are_refused_with_a_remedy() {
        let refused = |options: EalOptions| Eal::init(options).unwrap_err().to_string();
        let sentence = refused(EalOptions { memory_mebibytes: 8, ..Default::default() });
        assert!(sentence.contains("8 MiB") && sentence.contains("at least 32"), "{sentence}");
        let sentence = refused(EalOptions { main_core: Some(700), ..Default::default() });
        assert!(
            sentence.contains("core 700 does not exist") && sentence.contains("cores of this process are 0"),
            "{sentence}"
        );
        let sentence = refused(EalOptions { pci_devices: vec!["eth0".into()], ..Default::default() });
        assert!(sentence.contains("`eth0` is not a PCI address"), "{sentence}");
        let sentence = refused(EalOptions { file_prefix: Some("a/b".into()), ..Default::default() });
        assert!(sentence.contains("`a/b`"), "{sentence}");
        let huge =
            EalOptions { memory_mebibytes: 1 << 30, huge_pages: HugePages::Required, ..Default::default() };
        let sentence = refused(huge);
        assert!(sentence.contains("vm.nr_hugepages=536870912"), "{sentence}");
    }
}
