//! A node daemon without a data path, for the lab's own tests: it takes the arguments of `sluiced`, shows its document on standard
//! output, refuses every request on its control socket, and ends on SIGTERM.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    config: PathBuf,
    #[arg(long)]
    socket: PathBuf,
    /// Listens, and never answers: as a node whose ports do not open.
    #[arg(long)]
    silent: bool,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    println!("{}", std::fs::read_to_string(&arguments.config)?);
    let listener = UnixListener::bind(&arguments.socket)?;
    let mut asked = Vec::new();
    loop {
        let mut stream = BufReader::new(listener.accept()?.0);
        // Who hangs up before the end of a line asks nothing.
        if stream.read_line(&mut String::new())? > 0 && !arguments.silent {
            stream.get_mut().write_all(b"{\"error\":\"this is not a node\"}\n")?;
        }
        // Left open: a node that is slow to start does not hang up.
        asked.push(stream);
    }
}
