//! Whether AF_XDP works here: opens such a socket and attaches a program to a veth interface, as a data path's port would.
//!
//! The rights differ: the socket needs CAP_NET_RAW in the user namespace of the network namespace, loading the program needs
//! CAP_BPF in the *first* user namespace, so an ordinary user's lab is refused. What the kernel answers is what counts.

use std::fs;
use std::path::Path;
use std::process::Command;

use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use socket2::{Domain, Socket, Type};

use crate::error::{LabError, Result, While};
use crate::program::{batch, run};
use crate::state::PortKind;

/// Address family of AF_XDP sockets in Linux.
const AF_XDP: i32 = 44;
/// `r0 = XDP_PASS; exit` in eBPF instructions of eight bytes (RFC 9669, sections 4.1 and 4.3).
const PASS: [u8; 16] = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// Chooses the kind of the data path's ports: what was asked for, else AF_XDP where it works; and the reason, one sentence.
/// Runs in init's own network namespace; `scratch` is a directory for one small file, which is removed again.
pub(crate) fn port_kind(asked: Option<PortKind>, scratch: &Path) -> (PortKind, String) {
    match (asked, attempt(scratch)) {
        (Some(kind), _) => (kind, "as asked for".into()),
        (None, Ok(())) => (PortKind::AfXdp, "the kernel takes AF_XDP sockets and XDP programs here".into()),
        (None, Err(error)) => (PortKind::AfPacket, format!("AF_XDP does not work here: {error}")),
    }
}

fn attempt(scratch: &Path) -> Result<()> {
    Socket::new(Domain::from(AF_XDP), Type::RAW, None).doing(|| "opening an AF_XDP socket".into())?;
    let file = scratch.join("xdp-probe.o");
    let program = program().map_err(|error| LabError::Step(format!("writing an XDP program: {error}")))?;
    fs::write(&file, program).doing(|| format!("writing {}", file.display()))?;
    let result = attach(&file);
    // The directory goes with the lab in any case.
    let _ = fs::remove_file(&file);
    result
}

fn attach(file: &Path) -> Result<()> {
    batch("ip", &["link add name xdp-probe type veth peer name xdp-probe-peer".into()])?;
    let mut command = Command::new("ip");
    command.args(["link", "set", "dev", "xdp-probe", "xdpdrv", "object"]).arg(file).args(["section", "xdp"]);
    let attached = run(&mut command, "");
    batch("ip", &["link delete dev xdp-probe".into()])?;
    match attached {
        // The first complaint is the cause, the others follow from it.
        Err(LabError::Program { stderr, .. }) => {
            let cause = stderr.split(';').next().unwrap_or_default();
            Err(LabError::Step(format!("an XDP program could not be attached ({cause})")))
        }
        other => other.map(drop),
    }
}

/// An object file with a program that passes every frame to the kernel.
fn program() -> std::result::Result<Vec<u8>, object::write::Error> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let section = object.add_section(Vec::new(), b"xdp".to_vec(), SectionKind::Text);
    object.append_section_data(section, &PASS, 8);
    object.add_symbol(Symbol {
        name: b"pass".to_vec(),
        value: 0,
        size: PASS.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    });
    object.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_an_object_file_for_bpf() {
        let bytes = program().unwrap();
        assert_eq!(&bytes[..4], b"\x7fELF");
        // e_machine of the ELF header: 247 is EM_BPF.
        assert_eq!(u16::from_le_bytes([bytes[18], bytes[19]]), 247);
        assert!(bytes.windows(PASS.len()).any(|window| window == PASS));
    }
}
