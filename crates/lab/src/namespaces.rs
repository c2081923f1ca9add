//! Namespaces: those of the lab as a whole, one network and mount namespace for each node, and the way into them.
//!
//! ```text
//! user namespace (only where the caller may not do without)
//! └─ PID, IPC, mount and network namespace of the lab: init is PID 1
//!    ├─ node "tor":  network namespace + mount namespace with its own /proc and /sys
//!    └─ node "web-1": …
//! ```
//!
//! Init keeps a node's namespaces alive by holding their files open, so they vanish with it: there is nothing to unmount after
//! a crash. From outside they are reached through `/proc/INIT/fd`. Bind mounts of the files would not do: the kernel binds a
//! mount namespace only where its number tells that it is newer, and Linux 6.18 was seen to refuse new ones now and then.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result, While};
use crate::process::ProcessIdentity;

/// Moves the calling process, which must have one thread, into new namespaces for a lab; its next child becomes PID 1 of them.
/// Returns whether a user namespace was needed.
///
/// # Errors
/// [`LabError::Namespaces`] when the kernel refuses both ways.
pub(crate) fn enter_new_lab() -> Result<bool> {
    let flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC;
    let (user, group) = (geteuid(), getegid());
    let user_namespace = !user.is_root() || unshare(flags).is_err();
    if user_namespace {
        unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(LabError::Namespaces)?;
        // Root of the namespace is the caller; without giving up setgroups the kernel refuses the group map.
        let maps = [
            ("setgroups", "deny".into()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ];
        for (file, map) in maps {
            fs::write(format!("/proc/self/{file}"), map).doing(|| format!("writing /proc/self/{file}"))?;
        }
    }
    Ok(user_namespace)
}

/// Makes the lab's mount namespace its own.
pub(crate) fn prepare_mounts() -> Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .doing(|| "making mounts private".into())?;
    // What a node names with `ip netns`, or pins as a BPF object, stays inside the lab.
    // Without the directory a node would make it, and leave its files there.
    let _ = fs::create_dir("/run/netns");
    mount_where_allowed("tmpfs", "/run/netns");
    mount_where_allowed("bpf", "/sys/fs/bpf");
    Ok(())
}

/// Mounts a file system of the kernel. Containers that mask parts of these refuse, and some machines lack the place; then what
/// is there is the machine's, with other interfaces in `/sys` and outer pids in `/proc`, which concerns only who looks.
fn mount_where_allowed(kind: &str, place: &str) {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if let Err(error) = mount(Some("lab"), place, Some(kind), flags, None::<&str>) {
        eprintln!("{place} stays the machine's: {error}");
    }
}

/// The namespaces of one node. They live while this or a process in them does.
pub(crate) struct NodeNamespaces {
    network: File,
    mounts: File,
}

/// Where another process finds the namespaces of a node: numbers of open files of init.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceFiles {
    network: RawFd,
    mounts: RawFd,
}

impl NodeNamespaces {
    /// Creates the namespaces of one node. Called by init.
    pub(crate) fn create() -> Result<Self> {
        // The thread leaves the lab's namespaces for good.
        on_a_thread(|| {
            let flags = CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
            unshare(flags).doing(|| "creating the namespaces of a node".into())?;
            let files = Self {
                network: open(Path::new("/proc/thread-self/ns/net"))?,
                mounts: open(Path::new("/proc/thread-self/ns/mnt"))?,
            };
            for (kind, place) in [("sysfs", "/sys"), ("bpf", "/sys/fs/bpf"), ("proc", "/proc")] {
                mount_where_allowed(kind, place);
            }
            Ok(files)
        })
    }

    /// Runs `work` in the namespaces, on a thread of its own. Called by init.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_FS).doing(|| "leaving the shared working directory".into())?;
            for file in [&self.network, &self.mounts] {
                setns(file, CloneFlags::empty()).doing(|| "entering a node".into())?;
            }
            work()
        })
    }

    /// The network namespace as a path that `ip` takes; `init` is the identity of the calling process.
    pub(crate) fn network_path(&self, init: ProcessIdentity) -> PathBuf {
        file_path(init, self.network.as_raw_fd())
    }

    /// For others to find them.
    pub(crate) fn files(&self) -> NamespaceFiles {
        NamespaceFiles { network: self.network.as_raw_fd(), mounts: self.mounts.as_raw_fd() }
    }
}

fn file_path(init: ProcessIdentity, fd: RawFd) -> PathBuf {
    format!("/proc/{}/fd/{fd}", init.pid).into()
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let cut_short = || Err(LabError::Step("work in the namespaces of a node was cut short".into()));
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|_| cut_short()))
}

/// Moves the calling process, which must have one thread, into a node of a running lab; its next child is inside altogether.
pub(crate) fn enter_from_outside(init: ProcessIdentity, node: NamespaceFiles) -> Result<()> {
    let of_init = PathBuf::from(format!("/proc/{}/ns", init.pid));
    let user = |namespaces: &Path| fs::read_link(namespaces.join("user")).ok();
    let mut files = Vec::new();
    if user(&of_init) != user(Path::new("/proc/self/ns")) {
        files.push(open(&of_init.join("user"))?);
    }
    for path in [
        of_init.join("ipc"),
        of_init.join("pid"),
        file_path(init, node.network),
        file_path(init, node.mounts),
    ] {
        files.push(open(&path)?);
    }
    let directory = std::env::current_dir();
    for file in files {
        setns(file, CloneFlags::empty()).doing(|| "entering the node".into())?;
    }
    // Entering a mount namespace puts the process at its root.
    if let Ok(directory) = directory {
        let _ = std::env::set_current_dir(directory);
    }
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    File::open(path).doing(|| format!("opening {}", path.display()))
}
