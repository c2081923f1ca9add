//! Two pairs of virtual Ethernet interfaces between a namespace for the generator and one for what is measured.
//!
//! Each namespace lives as long as a sleeping process in it, so that nothing stays behind however the bench ends. The interfaces have the
//! same names and MAC addresses in every testbed; whoever needs other settings makes them.
//!
//! ```text
//!   generator's namespace                     device's namespace
//!     uplink   ────────────────────────────────  uplink    02:00:00:00:00:01
//!     downlink ────────────────────────────────  downlink  02:00:00:00:00:02
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sluice_trial::ports::PortName;
use sluice_trial::topology::{downlink_mac, uplink_mac};

use super::{Links, NamedPorts, Setting, entering};
use crate::error::{BenchError, Result, While};
use crate::process::{Process, run};

/// How long a namespace may take to be there.
const START_LIMIT: Duration = Duration::from_secs(5);
/// The program that keeps a namespace, by the name under which the kernel shows it.
const HOLDER: &str = "sleep";
/// Room for the longest frame with its encapsulation.
const MTU: u16 = 1700;

/// The interfaces of both ends.
pub(super) const INTERFACES: [&str; 2] = ["uplink", "downlink"];

/// Both namespaces with the links between them; removed when dropped.
#[derive(Debug)]
pub(crate) struct Veth {
    pub(super) generator: Namespace,
    pub(super) device: Namespace,
}

/// Network namespaces that processes are started in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub(super) generator: PathBuf,
    pub(super) device: PathBuf,
}

impl Veth {
    /// Makes both, with the interfaces of both ends up.
    ///
    /// # Errors
    ///
    /// For whoever is not root, and what `ip` or the kernel say against it.
    pub(crate) fn new(setting: &Setting, name: &str) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            return Err(BenchError::Arguments("its interfaces and network namespaces need root".into()));
        }
        let folder = setting.folder_of(name)?;
        let veth = Self {
            generator: Namespace::new(setting, &folder, "generator-namespace")?,
            device: Namespace::new(setting, &folder, "device-namespace")?,
        };
        // The kernel of the generator's end is not to answer for it; that of a device says itself what it wants.
        for namespace in [&veth.generator, &veth.device] {
            namespace.write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
        }
        veth.generator.ip(&create(&veth.device.path()))?;
        veth.device.ip(&device_end())?;
        for namespace in [&veth.generator, &veth.device] {
            for interface in INTERFACES {
                // A frame on a veth has no checksum and may be of any length, unless its sender does the work.
                namespace.run("ethtool", &["-K", interface, "tx", "off"])?;
            }
        }
        Ok(veth)
    }

    /// A setting for subjects on these links. A core at each end, since a veth has one queue; without huge pages, since the kernel
    /// copies from and to its own memory.
    pub(crate) fn setting(&self, setting: &Setting) -> Setting {
        let links = || {
            let [uplink, downlink] = INTERFACES.map(|interface| vec![PortName::AfXdp(interface.to_owned())]);
            Links { uplinks: uplink, downlinks: downlink }
        };
        Setting {
            ports: Some(NamedPorts { generator: links(), device: Some(links()) }),
            generator_cores: setting.generator_cores.iter().take(1).copied().collect(),
            device_cores: vec![setting.device_core()],
            huge_pages: false,
            namespaces: Some(Namespaces { generator: self.generator.path(), device: self.device.path() }),
            ..setting.clone()
        }
    }
}

/// Both pairs, and the generator's ends up.
fn create(device: &Path) -> String {
    let device = device.display();
    let pair = |interface: &str| {
        format!(
            "link add {interface} mtu {MTU} type veth peer name {interface} mtu {MTU} netns {device}\nlink set {interface} up\n"
        )
    };
    INTERFACES.map(pair).concat()
}

/// The device's ends, with the MAC addresses of the topology.
fn device_end() -> String {
    let macs = [uplink_mac(0), downlink_mac(0)];
    let lines = INTERFACES.iter().zip(macs).map(|(interface, mac)| {
        format!("link set {interface} address {mac} addrgenmode none\nlink set {interface} up\n")
    });
    lines.collect()
}

/// A network namespace that a sleeping process keeps.
#[derive(Debug)]
pub(super) struct Namespace {
    holder: Process,
    folder: PathBuf,
}

impl Namespace {
    fn new(setting: &Setting, folder: &Path, name: &'static str) -> Result<Self> {
        let mut holder = Process::start(name, Path::new("unshare"), folder, false, |command| {
            command.args(["--net", HOLDER, "infinity"]);
        })?;
        let comm = format!("/proc/{}/comm", holder.pid());
        // The process becomes the holder once it is in its namespace.
        holder.wait_for("it had a network namespace of its own", START_LIMIT, &setting.interrupt, || {
            (fs::read_to_string(&comm).ok()?.trim() == HOLDER).then_some(())
        })?;
        Ok(Self { holder, folder: folder.to_owned() })
    }

    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.pid()).into()
    }

    /// A program in the namespace, run to its end.
    pub(super) fn run(&self, program: &'static str, arguments: &[&str]) -> Result<String> {
        let (nsenter, before) = entering(Some(&self.path()), program.into());
        run(program, Command::new(nsenter).args(before).args(arguments))
    }

    /// Lines of `ip -batch`.
    pub(super) fn ip(&self, lines: &str) -> Result<()> {
        let file = self.folder.join(format!("ip-{}", self.holder.pid()));
        fs::write(&file, lines).during(|| format!("writing {}", file.display()))?;
        self.run("ip", &["-batch", &file.to_string_lossy()]).map(drop)
    }

    /// Writes one of the namespace's files below /proc/sys/net.
    pub(super) fn write(&self, file: &str, value: &str) -> Result<()> {
        self.run("sh", &["-c", "printf %s \"$1\" > \"$2\"", "sh", value, file]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_names_and_the_devices_the_addresses() {
        let text = create(Path::new("/proc/7/ns/net"));
        assert!(text.starts_with(
            "link add uplink mtu 1700 type veth peer name uplink mtu 1700 netns /proc/7/ns/net\n"
        ));
        assert!(text.ends_with("link set downlink up\n"));
        assert!(device_end().contains("link set downlink address 02:00:00:00:00:02 addrgenmode none\n"));
    }
}
