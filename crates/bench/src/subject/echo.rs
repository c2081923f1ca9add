//! An echo: a second generator process that forwards frames unread, and so shows what generator and links can do.

use sluice_trial::topology::Topology;
use sluice_trial::traffic::Expected;

use super::{Counters, LINKS_LIMIT, Setting, Subject, list};
use crate::error::Result;
use crate::generator::Generator;
use crate::process::Process;

/// The echo and its generator.
#[derive(Debug)]
pub(crate) struct Echo {
    echo: Generator,
    generator: Generator,
}

impl Echo {
    /// Starts both.
    pub(crate) fn start(setting: &Setting, topology: &Topology) -> Result<Self> {
        let folder = setting.folder_of("echo")?;
        let [tester, device] = setting.both_ends(&folder, topology)?;
        let mut generator = setting.start_traffic(&folder, &tester, topology, 1)?;
        let program = setting.generator_program()?;
        let echo = Generator::start("sluice-echo", &program, &folder, &setting.interrupt, |command| {
            command.arg("echo").args(device.arguments());
            command.args(["--cores", &list(&setting.device_cores[..1])]).args(setting.pages());
            if setting.zero_copy {
                command.arg("--zero-copy");
            }
        })?;
        generator.wait_for_links(LINKS_LIMIT)?;
        Ok(Self { echo, generator })
    }
}

impl Subject for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn expected(&self) -> Expected {
        Expected::Unchanged
    }

    fn counters(&mut self) -> Result<Counters> {
        let forwarded = self.echo.forwarded()?;
        Ok(Counters {
            packets: forwarded.packets,
            busy_cycles: forwarded.busy_cycles,
            heap_allocations: None,
            cache: None,
        })
    }

    fn forwarding_threads(&self) -> Vec<u32> {
        vec![self.echo.process().pid()]
    }

    fn processes(&self) -> Vec<&Process> {
        vec![self.echo.process(), self.generator.process()]
    }
}
