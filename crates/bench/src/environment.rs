//! The machine and the programs that a result depends on, read from what the kernel tells of them.
//!
//! [`Environment::gather`] reads `/proc` and `/sys` and starts nothing. What cannot be read is `None` and shown as `unknown`; nothing is
//! guessed. What only a scenario knows (ports, roles of cores, what its processes say of themselves) it adds itself.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What is shown in place of what could not be read.
pub const UNKNOWN: &str = "unknown";

/// The machine and the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of the programs.
    pub sluice: Option<String>,
    /// Commit that they were built from, where the build was told (`SLUICE_COMMIT`).
    pub commit: Option<String>,
    /// Version of DPDK that the processes ran with.
    pub dpdk: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub processor: Option<String>,
    /// Whether the machine is virtual.
    pub virtual_machine: Option<bool>,
    /// Processors that are online, as the kernel counts them.
    pub processors: Option<u64>,
    /// Threads that share a core; above 1 with simultaneous multithreading.
    pub threads_per_core: Option<u64>,
    /// What ran on which core.
    pub cores: Vec<Core>,
    /// Cycles of the time stamp counter a second.
    pub cycles_per_second: Option<u64>,
    /// What chooses the clock of the cores; absent where the machine lets nobody choose.
    pub governor: Option<String>,
    /// Caches of the first core.
    pub caches: Vec<Cache>,
    /// NUMA nodes.
    pub numa_nodes: Option<u64>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Huge pages that the kernel holds, by size.
    pub huge_pages: Vec<HugePagePool>,
    /// What the packet memory was taken from.
    pub packet_memory: Option<String>,
    /// Scheduler of the measured threads.
    pub scheduler: Option<String>,
    /// Load average of the last minute at the beginning.
    pub load_before: Option<f64>,
    /// Load average of the last minute at the end.
    pub load_after: Option<f64>,
    /// Ports that the traffic passed.
    pub ports: Vec<Port>,
    /// The command line.
    pub command: Option<String>,
}

/// A core and what ran on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Number of the core.
    pub core: u16,
    /// What ran on it.
    pub role: String,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u64,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size, KiB.
    pub kib: u64,
}

/// Huge pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePagePool {
    /// Size of a page, KiB.
    pub kib: u64,
    /// Pages that the kernel holds.
    pub total: u64,
    /// Pages among those that nobody used when this was read.
    pub free: u64,
}

/// A port that traffic passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Name in the node document.
    pub name: String,
    /// Kind, for example `memif`.
    pub kind: String,
    /// Speed, Mb/s; none where the kind has no speed.
    pub mbps: Option<u64>,
}

/// A fact for people: what it is about, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub name: &'static str,
    /// What is known of it.
    pub value: String,
    /// Whether it is what the results depend on besides the software; a comparison of two runs that differ in it says little.
    pub condition: bool,
}

impl Environment {
    /// What this process can read of its machine. Call it before the first trial, since it notes the load.
    pub fn gather() -> Self {
        let environment = Self::read_from(Path::new("/"));
        Self {
            sluice: Some(env!("CARGO_PKG_VERSION").to_owned()),
            commit: option_env!("SLUICE_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned),
            command: Some(command_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))),
            ..environment
        }
    }

    /// What the files below a root say.
    fn read_from(root: &Path) -> Self {
        let cpu = root.join("sys/devices/system/cpu");
        let cpuinfo = text(root, "proc/cpuinfo");
        let processors = cpuinfo
            .as_ref()
            .map(|text| text.lines().filter(|line| line.starts_with("processor")).count() as u64);
        Self {
            kernel: text(root, "proc/sys/kernel/osrelease"),
            processor: cpuinfo.as_deref().and_then(|text| cpu_field(text, "model name")).map(str::to_owned),
            virtual_machine: cpuinfo
                .as_deref()
                .and_then(|text| cpu_field(text, "flags"))
                .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            processors: processors.filter(|count| *count > 0),
            threads_per_core: text(&cpu, "cpu0/topology/thread_siblings_list")
                .map(|list| count_of_list(&list)),
            governor: text(&cpu, "cpu0/cpufreq/scaling_governor"),
            caches: caches(&cpu.join("cpu0/cache")),
            numa_nodes: text(root, "sys/devices/system/node/online").map(|list| count_of_list(&list)),
            memory_bytes: memory_bytes(root),
            huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
            load_before: load(root),
            ..Self::default()
        }
    }

    /// Notes the load at the end.
    pub(crate) fn end(&mut self) {
        self.load_after = load(Path::new("/"));
    }

    /// Everything, for people, in an order in which it can be read.
    pub fn facts(&self) -> Vec<Fact> {
        let software = |name, value| Fact { name, value, condition: false };
        let condition = |name, value| Fact { name, value, condition: true };
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let count = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
        let mut facts = vec![
            software("sluice", or_unknown(&self.sluice)),
            software("commit", or_unknown(&self.commit)),
            condition("DPDK", or_unknown(&self.dpdk)),
            condition("kernel", or_unknown(&self.kernel)),
            condition("processor", or_unknown(&self.processor)),
            condition("clock (TSC)", self.cycles_per_second.map_or_else(|| UNKNOWN.to_owned(), gigahertz)),
            condition(
                "machine",
                self.virtual_machine.map_or(UNKNOWN, |it| if it { "virtual" } else { "physical" }).to_owned(),
            ),
            condition("processors online", count(self.processors)),
            condition("threads per core", count(self.threads_per_core)),
            condition("caches", list(self.caches.iter().map(Cache::describe))),
            condition("NUMA nodes", count(self.numa_nodes)),
            condition("memory", self.memory_bytes.map_or_else(|| UNKNOWN.to_owned(), gibibytes)),
            condition("huge pages", list(self.huge_pages.iter().map(HugePagePool::describe))),
            condition("packet memory", or_unknown(&self.packet_memory)),
            condition("scheduler", or_unknown(&self.scheduler)),
        ];
        if let Some(governor) = &self.governor {
            facts.push(condition("frequency governor", governor.clone()));
        }
        facts.extend([
            condition(
                "cores in use",
                list(self.cores.iter().map(|core| format!("{}: {}", core.core, core.role))),
            ),
            condition("ports", list(self.ports.iter().map(Port::describe))),
            software(
                "load average",
                format!("{} before, {} after", average(self.load_before), average(self.load_after)),
            ),
            software("command", or_unknown(&self.command)),
        ]);
        facts
    }
}

impl Cache {
    fn describe(&self) -> String {
        let kind = match self.kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        format!("L{}{kind} {}", self.level, kibibytes(self.kib))
    }
}

impl HugePagePool {
    fn describe(&self) -> String {
        format!("{} of {}, {} free", self.total, kibibytes(self.kib), self.free)
    }
}

impl Port {
    fn describe(&self) -> String {
        let speed = match self.mbps {
            None => String::new(),
            Some(mbps) if mbps.is_multiple_of(1000) => format!(", {} Gb/s", mbps / 1000),
            Some(mbps) => format!(", {mbps} Mb/s"),
        };
        format!("{} ({}{speed})", self.name, self.kind)
    }
}

/// The words of a command line as one would type them, without the path of the program.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && word.chars().all(|letter| letter.is_alphanumeric() || "-_./,:=+@%".contains(letter))
    };
    let quoted =
        |word: String| if plain(&word) { word } else { format!("'{}'", word.replace('\'', "'\\''")) };
    let mut words = words.map(quoted);
    let program = words.next().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    program.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The first line of a file, if there is one that says something.
fn text(root: &Path, path: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A field of the first processor in /proc/cpuinfo.
fn cpu_field<'a>(cpuinfo: &'a str, field: &str) -> Option<&'a str> {
    let value = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == field).then(|| value.trim())
    })?;
    (!value.is_empty()).then_some(value)
}

/// How many numbers are in a list such as `0-3,8`.
fn count_of_list(list: &str) -> u64 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.trim().parse::<u64>().ok()?.checked_sub(first.trim().parse().ok()?)? + 1)
    };
    list.split(',').filter_map(count).sum()
}

fn caches(folder: &Path) -> Vec<Cache> {
    let cache = |index: usize| {
        let folder = folder.join(format!("index{index}"));
        let size = text(&folder, "size")?;
        Some(Cache {
            level: text(&folder, "level")?.parse().ok()?,
            kind: text(&folder, "type")?,
            kib: size.strip_suffix('K')?.parse().ok()?,
        })
    };
    (0..).map_while(cache).collect()
}

fn memory_bytes(root: &Path) -> Option<u64> {
    let meminfo = text(root, "proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn huge_pages(folder: &Path) -> Vec<HugePagePool> {
    let pool = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let kib = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |file| text(&entry.path(), file)?.parse().ok();
        Some(HugePagePool { kib, total: count("nr_hugepages")?, free: count("free_hugepages")? })
    };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut pools: Vec<HugePagePool> = entries.flatten().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.kib);
    pools
}

fn load(root: &Path) -> Option<f64> {
    text(root, "proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { UNKNOWN.to_owned() } else { parts.join(", ") }
}

fn average(load: Option<f64>) -> String {
    load.map_or_else(|| UNKNOWN.to_owned(), |load| format!("{load:.2}"))
}

fn gigahertz(hertz: u64) -> String {
    format!("{:.2} GHz", hertz as f64 / 1e9)
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn kibibytes(kib: u64) -> String {
    match kib {
        _ if kib.is_multiple_of(1 << 20) => format!("{} GiB", kib >> 20),
        _ if kib.is_multiple_of(1 << 10) => format!("{} MiB", kib >> 10),
        _ => format!("{kib} KiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::read_from(folder.path());
        assert_eq!(environment, Environment::default());
        for fact in environment.facts() {
            assert!(fact.value.starts_with(UNKNOWN), "{} is invented: {}", fact.name, fact.value);
        }
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A: processor\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: B\n",
        );
        file("proc/sys/kernel/osrelease", "6.1.0\n");
        file("proc/loadavg", "0.50 0.10 0.00 1/100 4711\n");
        file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
        file("sys/devices/system/node/online", "0-1,4\n");
        file("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,28\n");
        for (index, (level, kind, size)) in
            [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K")].into_iter().enumerate()
        {
            let cache = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            file(&format!("{cache}/level"), &format!("{level}\n"));
            file(&format!("{cache}/type"), &format!("{kind}\n"));
            file(&format!("{cache}/size"), &format!("{size}\n"));
        }
        for (kib, total, free) in [(1_048_576, 2, 1), (2048, 512, 500)] {
            let pool = format!("sys/kernel/mm/hugepages/hugepages-{kib}kB");
            file(&format!("{pool}/nr_hugepages"), &format!("{total}\n"));
            file(&format!("{pool}/free_hugepages"), &format!("{free}\n"));
        }
        let facts = Environment::read_from(folder.path()).facts();
        let value = |name| facts.iter().find(|fact| fact.name == name).unwrap().value.as_str();
        assert_eq!(value("processor"), "A: processor");
        assert_eq!(
            (value("machine"), value("processors online"), value("threads per core")),
            ("virtual", "2", "2")
        );
        assert_eq!((value("kernel"), value("memory"), value("NUMA nodes")), ("6.1.0", "16.0 GiB", "3"));
        assert_eq!(value("caches"), "L1d 48 KiB, L1i 32 KiB, L2 2 MiB");
        assert_eq!(value("huge pages"), "512 of 2 MiB, 500 free, 2 of 1 GiB, 1 free");
        assert_eq!(value("load average"), "0.50 before, unknown after");
    }

    #[test]
    fn this_machine_can_be_read() {
        let environment = Environment::gather();
        assert_eq!(environment.sluice.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(environment.kernel.is_some() && environment.memory_bytes.is_some(), "{environment:?}");
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        let words = ["/usr/bin/sluice", "bench", "--html", "a b.html", "it's"].map(str::to_owned);
        assert_eq!(command_line(words.into_iter()), r"sluice bench --html 'a b.html' 'it'\''s'");
    }

    #[test]
    fn ports_tell_their_speed_where_they_have_one() {
        let port = |mbps| Port { name: "up".into(), kind: "memif".into(), mbps }.describe();
        assert_eq!(
            [port(None), port(Some(25_000)), port(Some(2_500))],
            ["up (memif)", "up (memif, 25 Gb/s)", "up (memif, 2500 Mb/s)"]
        );
    }
}
