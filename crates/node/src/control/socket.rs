//! The control socket: one task for each connection.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use nix::sys::stat::{Mode, umask};
use sluice_control::{Answer, Reply, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::node::Node;
use super::{answers, apply, capture};

/// Longest request: a node document and some room.
const LONGEST_REQUEST: u64 = 80 << 20;

/// Nobody but the node's own user: who may talk to the node may reconfigure it.
const OTHERS: Mode = Mode::from_bits_truncate(0o177);

/// Listens on a path; takes over the socket of a node that is gone, never that of one that lives, and never a file that is no socket.
pub(super) fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    make_folder(path)?;
    let told = || path.display();
    match std::fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            anyhow::bail!(
                "{} exists and is no socket, so it is left alone; name another socket with --socket",
                told()
            )
        }
        Ok(_) if sluice_control::is_alive(path) => {
            anyhow::bail!("another node answers on {}; stop it, or name another socket with --socket", told())
        }
        Ok(_) => std::fs::remove_file(path)
            .with_context(|| format!("{} is in the way and cannot be removed", told()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| {
                format!("{} cannot be looked at; name another socket with --socket", told())
            });
        }
    }
    // Made with these permissions, so that there is no moment with others. Nothing else makes files now.
    let before = umask(OTHERS);
    let listener = UnixListener::bind(path);
    umask(before);
    listener.with_context(|| format!("no control socket at {}; name another with --socket", told()))
}

/// Makes the folder of a socket where that is the run directory, or is under /run, which is empty after each start of the system. Another one that
/// does not exist is a mistake in writing.
fn make_folder(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) else { return Ok(()) };
    let told = folder.display();
    if folder.starts_with("/run") || folder == sluice_control::run_directory() {
        return std::fs::create_dir_all(folder)
            .with_context(|| format!("{told} cannot be made; name another socket with --socket"));
    }
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => anyhow::bail!("{told} is no folder; name another socket with --socket"),
        Err(error) => Err(error).with_context(|| {
            format!("there is no folder {told}; make it, or name another socket with --socket")
        }),
    }
}

/// Serves every connection until the task is aborted.
pub(super) async fn accept(listener: UnixListener, node: Rc<RefCell<Node>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(serve(stream, Rc::clone(&node)));
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait until others have closed.
                tracing::warn!(%error, "a connection to the control socket was lost");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: UnixStream, node: Rc<RefCell<Node>>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        match (&mut read).take(LONGEST_REQUEST).read_line(&mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let reply = match serde_json::from_str(&line) {
            Ok(request) => answer(request, &node, &mut read).await,
            Err(error) => {
                Reply::Error(format!("the request cannot be read: {error}; use the sluice of this version"))
            }
        };
        if send(&mut write, &reply).await.is_err() {
            return;
        }
    }
}

async fn answer(request: Request, node: &Rc<RefCell<Node>>, read: &mut BufReader<OwnedReadHalf>) -> Reply {
    let result = match request {
        Request::StartCapture { interface, file, count, direction, overwrite } => {
            let wanted = capture::Wanted { interface, file, count, direction, overwrite };
            capture::run(node, wanted, read).await.map(Answer::Captured)
        }
        Request::Apply { document, file } => {
            let read = move || {
                sluice_intent::parse(&document, &file).map_err(|problems| anyhow::anyhow!("{problems}"))
            };
            apply::apply(node, read).await.map(Answer::Applied)
        }
        other => answers::answer(&mut node.borrow_mut(), other),
    };
    result.map_or_else(|error| Reply::Error(format!("{error:#}")), Reply::Answer)
}

async fn send(write: &mut OwnedWriteHalf, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply).map_err(std::io::Error::other)?;
    line.push(b'\n');
    write.write_all(&line).await
}
