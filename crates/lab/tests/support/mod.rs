//! What the tests of whole labs share: running the lab's command as root or as an ordinary user, and proof that nothing is left.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use nix::unistd::{User, geteuid};
use serde_json::Value;
use sluice_lab::ProcessIdentity;
use tempfile::TempDir;

/// As whom labs are built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum As {
    Root,
    User,
}

/// Runs the lab's command; every lab that it brought up is taken down when it is dropped.
pub struct Runner {
    who: As,
    runtime: TempDir,
    names: Vec<String>,
}

/// Runs a test as root or as an ordinary user; says so where the machine does not let it.
pub fn with(who: As, test: impl FnOnce(&mut Runner)) {
    match Runner::new(who) {
        Ok(mut runner) => test(&mut runner),
        Err(why) => eprintln!("NOT TESTED as {who:?}: {why}"),
    }
}

impl Runner {
    fn new(who: As) -> Result<Self, String> {
        let root = geteuid().is_root();
        if who == As::Root && !root {
            return Err("the tests do not run as root".into());
        }
        let runtime = tempfile::tempdir().unwrap();
        let runner = Self { who, runtime, names: Vec::new() };
        if who == As::User {
            if root {
                let nobody = User::from_name("nobody").unwrap().ok_or("there is no user 'nobody'")?;
                chown(runner.runtime.path(), Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
            }
            // The user may not read where the programs were built.
            for name in ["lab", "stub_node"] {
                fs::copy(built(name), runner.directory().join(name)).unwrap();
            }
        }
        let mut probe = match who {
            As::Root => Command::new("unshare"),
            As::User => runner.as_user("unshare"),
        };
        probe.args(if who == As::Root {
            vec!["-n", "-m", "-p", "-f", "true"]
        } else {
            vec!["-U", "-r", "-n", "true"]
        });
        let output = probe.output().map_err(|error| format!("unshare: {error}"))?;
        let refused = String::from_utf8_lossy(&output.stderr).trim().to_string();
        if output.status.success() { Ok(runner) } else { Err(format!("no namespaces here: {refused}")) }
    }

    /// A directory of the user of the lab, for files of the test.
    pub fn directory(&self) -> &Path {
        self.runtime.path()
    }

    /// A file in it, which may be run.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Path of one of the example programs.
    pub fn example(&self, name: &str) -> String {
        let path = if self.who == As::Root { built(name) } else { self.directory().join(name) };
        path.display().to_string()
    }

    /// Where the lab of a name keeps its state.
    pub fn state(&self, name: &str) -> PathBuf {
        match self.who {
            As::Root => Path::new("/run/sluice/lab").join(name),
            As::User => self.directory().join("sluice/lab").join(name),
        }
    }

    fn as_user(&self, program: &str) -> Command {
        if !geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", program]);
        command
    }

    /// A command `lab ARGUMENTS`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = self.example("lab");
        let mut command = match self.who {
            As::Root => Command::new(program),
            As::User => self.as_user(&program),
        };
        command.env("XDG_RUNTIME_DIR", self.directory()).current_dir("/").arg("lab").args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Its output.
    pub fn lab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Its standard output; it must succeed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(output.status.success(), "lab {arguments:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Its standard error; it must fail with code 1.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert_eq!(output.status.code(), Some(1), "lab {arguments:?}: {}", text(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    /// A name that no other test uses; the lab of this name is taken down in the end.
    pub fn name(&mut self, purpose: &str) -> String {
        let who = if self.who == As::Root { "r" } else { "u" };
        let name = format!("test-{purpose}-{who}{}", std::process::id());
        self.names.push(name.clone());
        name
    }

    /// Brings a lab up under its own name.
    pub fn up(&mut self, purpose: &str, topology: &str, more: &[&str]) -> String {
        let name = self.name(purpose);
        let mut arguments = vec!["up", "--name", &name, "--topology", topology];
        arguments.extend(more);
        self.ok(&arguments);
        name
    }

    /// Output of a program in a node; its exit code is not judged.
    pub fn exec(&self, name: &str, node: &str, program: &[&str]) -> Output {
        let mut arguments = vec!["exec", "--name", name, node, "--"];
        arguments.extend(program);
        self.lab(&arguments)
    }

    /// `status --json`, or nothing when there is no such lab (yet).
    pub fn status(&self, name: &str) -> Option<Value> {
        let output = self.lab(&["status", "--name", name, "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// One node of `status --json`.
    pub fn node(&self, name: &str, node: &str) -> Value {
        let status = self.status(name).unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|candidate| candidate["name"] == node).unwrap().clone()
    }

    /// Everything by which the lab could be seen after its end.
    pub fn traces(&self, name: &str) -> Traces {
        let status = self.status(name).unwrap();
        let init = status["init"]["pid"].as_i64().unwrap();
        let mut namespaces = BTreeSet::new();
        for kind in ["user", "pid", "net", "mnt", "ipc"] {
            let link =
                |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap().display().to_string();
            let of_init = link(&init.to_string());
            // As root a lab has the machine's user namespace.
            if of_init != link("self") {
                namespaces.insert(of_init);
            }
        }
        for node in status["nodes"].as_array().unwrap() {
            let links = ["readlink", "/proc/self/ns/net", "/proc/self/ns/mnt"];
            let output = self.exec(name, node["name"].as_str().unwrap(), &links);
            let links = String::from_utf8(output.stdout).unwrap();
            assert_eq!(links.lines().count(), 2, "{links}");
            namespaces.extend(links.lines().map(String::from));
        }
        let pins = links(Path::new(&format!("/proc/{init}")))
            .filter_map(|link| {
                let target = fs::read_link(&link).ok()?.display().to_string();
                namespaces.contains(&target).then(|| (target, fs::File::open(link).unwrap()))
            })
            .collect::<BTreeMap<_, _>>();
        assert_eq!(pins.keys().collect::<Vec<_>>(), namespaces.iter().collect::<Vec<_>>(), "init holds all");
        Traces { namespaces, state: self.state(name), taken: ticks(), _pins: pins }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        for name in &self.names {
            let output = self.lab(&["down", "--name", name]);
            if !output.status.success() {
                eprintln!("lab {name} was not taken down: {}", text(&output));
            }
        }
    }
}

/// See [`Runner::traces`].
pub struct Traces {
    pub namespaces: BTreeSet<String>,
    state: PathBuf,
    /// Clock ticks since boot. What began later is not of this lab, but may hold a copy of a pin until it executes its program.
    taken: u64,
    /// The namespaces, held open: the kernel gives the numbers of those that are gone to new ones, of another lab for instance.
    _pins: BTreeMap<String, fs::File>,
}

/// Links in `/proc` to the namespaces of a process and to its open files.
fn links(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let list = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    list(process.join("ns")).chain(list(process.join("fd")))
}

impl Traces {
    /// No process is in any of the namespaces or holds one open, nothing is mounted for the lab, and its directory is gone.
    pub fn assert_gone(&self) {
        self.assert_no_holders();
        assert!(!self.state.exists(), "{} is still there", self.state.display());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.state.to_str().unwrap()), "{mounts}");
    }

    /// [`Traces::assert_gone`] after an interruption: a program that was just entering a node ends by itself a moment later.
    pub fn assert_gone_soon(&self) {
        until("the end of everything in the lab", || self.holders().is_empty());
        self.assert_gone();
    }

    /// No process is in any of the namespaces or holds one open.
    pub fn assert_no_holders(&self) {
        let holders = self.holders();
        assert!(holders.is_empty(), "namespaces of the lab are still there: {holders:?}");
    }

    /// How many of the namespaces are seen now: proof that [`Traces::assert_gone`] can see them.
    pub fn seen(&self) -> usize {
        self.holders().into_iter().map(|(_, target)| target).collect::<BTreeSet<_>>().len()
    }

    /// Links in `/proc` to namespaces of the lab, those of this process left out. A process that ended and that nobody has
    /// waited for holds nothing any more.
    fn holders(&self) -> Vec<(PathBuf, String)> {
        let of_then = |path: &PathBuf| {
            let pid = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            let process =
                pid.filter(|pid| *pid != std::process::id().cast_signed()).and_then(ProcessIdentity::of);
            process.is_some_and(|process| process.is_alive() && process.start_time <= self.taken)
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        processes
            .filter(of_then)
            .flat_map(|process| links(&process))
            .filter_map(|link| Some((link.clone(), fs::read_link(link).ok()?.display().to_string())))
            .filter(|(_, target)| self.namespaces.contains(target))
            .collect()
    }
}

/// Clock ticks since boot, of which Linux tells a hundred a second everywhere.
fn ticks() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    (seconds * 100.0) as u64
}

/// Standard output and error of a program, for a message.
pub fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Waits until something is so, at most ten seconds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come about within 10 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An example program of this crate, brought up to date first: Cargo does so only when it runs all tests.
fn built(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    BUILD.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "sluice-lab", "--examples"]);
        cargo.args((!cfg!(debug_assertions)).then_some("--release")).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success(), "the example programs cannot be built");
    });
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: run `cargo build -p sluice-lab --examples` first", path.display());
    path
}

/// Two nodes and a limited link.
pub const PAIR: &str = r#"
version: 1
name: pair
nodes:
  - name: a
    interfaces: [{name: eth0, addresses: [192.0.2.1/24, "2001:db8::1/64"]}]
  - name: b
    interfaces: [{name: eth0, addresses: [192.0.2.2/24, "2001:db8::2/64"]}]
links:
  - {ends: ["a:eth0", "b:eth0"], mtu: 1400, rate: 100mbit}
"#;

/// What is demonstrated on [`PAIR`].
pub const PAIR_DEMONSTRATION: &str = r#"
demonstration:
  tester: b
  workloads: [a]
  hops: [{name: tester, addresses: [192.0.2.2, "2001:db8::2"]}]
"#;

/// A node that runs sluiced with two workers, and a workload.
pub const HOST: &str = r#"
version: 1
name: host
nodes:
  - name: host-1
    interfaces: [{name: web-1}]
    sluiced:
      version: 1
      name: host-1
      role: host
      dataplane: {cores: [0, 1]}
      ports: [{name: web-1, interface: web-1}]
  - name: web-1
    interfaces: [{name: eth0, addresses: [192.0.2.1/24]}]
links:
  - {ends: ["host-1:web-1", "web-1:eth0"]}
"#;
