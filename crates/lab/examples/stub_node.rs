//! A node daemon without a data path, for the lab's own tests: it takes the arguments of `sluiced`, shows its document on standard
//! output, accepts on its control socket, and ends on SIGTERM.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    config: PathBuf,
    #[arg(long)]
    socket: PathBuf,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    println!("{}", std::fs::read_to_string(arguments.config)?);
    let listener = UnixListener::bind(arguments.socket)?;
    loop {
        listener.accept()?;
    }
}
