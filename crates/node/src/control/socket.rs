//! The control socket: one task for each connection.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use sluice_control::{Answer, Reply, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::node::Node;
use super::{answers, apply, capture};

/// Longest request: a node document and some room.
const LONGEST_REQUEST: u64 = 80 << 20;

/// Listens on a path; takes over the socket of a node that is gone, never that of one that lives.
pub(super) fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| {
            format!("{} cannot be made; name another socket with --socket", directory.display())
        })?;
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        anyhow::bail!(
            "another node answers on {}; stop it, or name another socket with --socket",
            path.display()
        );
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error)
                .with_context(|| format!("{} is in the way and cannot be removed", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path)
        .with_context(|| format!("no control socket at {}; name another with --socket", path.display()))?;
    // Who may talk to the node may reconfigure it: its own user only.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("the permissions of {} cannot be set", path.display()))?;
    Ok(listener)
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
        Request::StartCapture { interface, file, count, direction } => {
            capture::run(node, &interface, file, count, direction, read).await.map(Answer::Captured)
        }
        Request::Apply { document, file } => match sluice_intent::parse(&document, &file) {
            Ok(plan) => apply::apply(node, plan).await.map(Answer::Applied),
            Err(problems) => Err(anyhow::anyhow!("{problems}")),
        },
        other => answers::answer(&mut node.borrow_mut(), other),
    };
    result.map_or_else(|error| Reply::Error(format!("{error:#}")), Reply::Answer)
}

async fn send(write: &mut OwnedWriteHalf, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply).map_err(std::io::Error::other)?;
    line.push(b'\n');
    write.write_all(&line).await
}
