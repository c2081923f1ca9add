//! The two ends of a round trip: a server that answers each request, and a client that measures.
//!
//! They are this program itself, started again inside a lab with the hidden arguments of [`EndArguments`]. Both have one thread and block in the
//! kernel while they wait, so that they can share a core with a node that polls. Requests and responses have the same size, and
//! each is handed to the kernel at once (TCP_NODELAY).
//!
//! A transaction of [`Kind::RequestResponse`] is a request and its response on a connection that stays (TCP_RR of netperf). One of
//! [`Kind::ConnectRequestResponse`] is a connection's whole life: connect, request, response, close (TCP_CRR). The client closes with a reset
//! (SO_LINGER of 0 s), so that neither end keeps the connection in TIME_WAIT and no number of transactions uses up the ports.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use hdrhistogram::Histogram;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sluice_lab::Lab;

use crate::error::{BenchError, Result, While};
use crate::report::Latency;

/// Bytes of a request, and of a response: those of the document.
pub(crate) const MESSAGE_BYTES: usize = 1024;
/// What the server prints once it takes connections.
pub(super) const READY: &str = "ready";
/// A peer that is silent for so long is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// Transactions before those that count: addresses are resolved and caches filled by then.
pub(super) const WARM_UP: usize = 50;
/// Significant digits of a histogram.
const DIGITS: u8 = 3;
/// Longest time that is told from longer ones.
const LONGEST_NS: u64 = 60_000_000_000;

/// Arguments of the parts that the latency scenario starts as processes of their own.
#[derive(Args, Debug)]
pub(crate) struct EndArguments {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand, Debug)]
enum End {
    /// Answers requests until it is ended.
    Server {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        core: Option<u16>,
    },
    /// Measures transactions, and prints them as JSON.
    Client(Order),
    /// Takes a lab down once its standard input ends, that is, once whoever started it has gone.
    Guard { lab: String },
}

/// What a client does.
#[derive(Args, Clone, Debug)]
pub(super) struct Order {
    /// The server.
    #[arg(long)]
    pub(super) server: SocketAddr,
    /// What a transaction is.
    #[arg(long, value_enum)]
    pub(super) kind: Kind,
    /// Most transactions.
    #[arg(long)]
    pub(super) transactions: u64,
    /// Longest time, milliseconds.
    #[arg(long)]
    pub(super) milliseconds: u64,
    /// The core to run on.
    #[arg(long)]
    pub(super) core: Option<u16>,
}

/// What a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Kind {
    /// Request and response on one connection.
    RequestResponse,
    /// Connect, request, response and close.
    ConnectRequestResponse,
}

impl Kind {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::RequestResponse, Self::ConnectRequestResponse];

    /// As netperf calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RequestResponse => "RR",
            Self::ConnectRequestResponse => "CRR",
        }
    }
}

/// The transactions of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// How many there were.
    pub(super) transactions: u64,
    /// From the begin of the first to the end of the last, seconds.
    pub(super) seconds: f64,
    /// How long they took.
    pub(super) latency: Latency,
}

impl Trial {
    /// The round trip as the document reckons it, µs: the time divided by the transactions.
    pub(super) fn by_rate(&self) -> f64 {
        self.seconds * 1e6 / self.transactions as f64
    }
}

/// Runs one of the parts.
///
/// # Errors
///
/// [`BenchError::System`] where a connection or the machine fails; [`BenchError::Lab`] where the lab cannot be taken down.
pub(crate) fn run(arguments: &EndArguments) -> Result<()> {
    match &arguments.end {
        End::Server { port, core } => {
            pin(*core)?;
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
            let listener = TcpListener::bind(address).during(|| format!("listening on {address}"))?;
            println!("{READY}");
            serve(&listener).during(|| "answering requests".into())
        }
        End::Client(order) => {
            pin(order.core)?;
            let trial = measure(order)?;
            println!("{}", serde_json::json!(trial));
            Ok(())
        }
        End::Guard { lab } => {
            io::copy(&mut io::stdin().lock(), &mut io::sink()).during(|| "waiting".into())?;
            Lab::down(lab)?;
            Ok(())
        }
    }
}

/// Keeps the process on a core.
fn pin(core: Option<u16>) -> Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut cores = CpuSet::new();
    cores
        .set(core.into())
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cores))
        .during(|| format!("moving to core {core}"))
}

/// Answers the requests of one connection after the other. A connection that breaks makes room for the next; only a listener
/// that breaks is an error.
pub(super) fn serve(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (connection, _) = listener.accept()?;
        // Whoever measures sees at its own end what went wrong here.
        let _ = answer(connection);
    }
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(SILENCE))?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        connection.read_exact(&mut message)?;
        connection.write_all(&message)?;
    }
}

/// Measures as many transactions as fit into the order's bounds. A transaction that fails ends the trial with an error: it is no sample.
///
/// # Errors
///
/// [`BenchError::System`] with the transaction that failed and why.
pub(super) fn measure(order: &Order) -> Result<Trial> {
    let failed = |number: u64| move || format!("{} {number} with {}", order.kind.name(), order.server);
    let mut times = histogram();
    let mut client = Client::new(order).during(failed(0))?;
    for _ in 0..WARM_UP {
        client.transaction().during(failed(0))?;
    }
    let limit = Duration::from_millis(order.milliseconds);
    let begin = Instant::now();
    let mut end = begin;
    while times.len() < order.transactions && end - begin < limit {
        let start = Instant::now();
        client.transaction().during(failed(times.len() + 1))?;
        end = Instant::now();
        times.saturating_record(nanoseconds(end - start));
    }
    Ok(Trial {
        transactions: times.len(),
        seconds: (end - begin).as_secs_f64(),
        latency: microseconds(&times)
            .ok_or_else(|| BenchError::Search("no transaction was asked for".into()))?,
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An empty histogram of nanoseconds, up to a minute.
pub(super) fn histogram() -> Histogram<u64> {
    let with_bounds = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
    // Bounds and digits are constants that it takes.
    with_bounds.unwrap_or_else(|error| unreachable!("{error}"))
}

/// The percentiles of nanoseconds; none of no sample.
pub(super) fn microseconds(times: &Histogram<u64>) -> Option<Latency> {
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    (!times.is_empty()).then(|| Latency {
        min: times.min() as f64 / 1e3,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: times.max() as f64 / 1e3,
    })
}

struct Client {
    server: SocketAddr,
    /// The connection that stays; none where every transaction has its own.
    connection: Option<TcpStream>,
    message: [u8; MESSAGE_BYTES],
    response: [u8; MESSAGE_BYTES],
}

impl Client {
    fn new(order: &Order) -> io::Result<Self> {
        let connection = match order.kind {
            Kind::RequestResponse => Some(connect(order.server)?),
            Kind::ConnectRequestResponse => None,
        };
        // Not all bytes alike, so that a response which is another's is noticed.
        let message = std::array::from_fn(|at| (at % 251) as u8);
        Ok(Self { server: order.server, connection, message, response: [0; MESSAGE_BYTES] })
    }

    fn transaction(&mut self) -> io::Result<()> {
        match &mut self.connection {
            Some(connection) => exchange(connection, &self.message, &mut self.response)?,
            None => exchange(&mut connect(self.server)?, &self.message, &mut self.response)?,
        }
        if self.response == self.message {
            Ok(())
        } else {
            Err(io::Error::new(ErrorKind::InvalidData, "the response is not that of the request"))
        }
    }
}

fn exchange(connection: &mut TcpStream, message: &[u8], response: &mut [u8]) -> io::Result<()> {
    connection.write_all(message)?;
    connection.read_exact(response)
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&server, SILENCE)?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(SILENCE))?;
    socket2::SockRef::from(&connection).set_linger(Some(Duration::ZERO))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A server on the loopback, whose thread ends with the test program.
    fn server(serve: impl FnOnce(TcpListener) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener));
        address
    }

    fn order(server: SocketAddr, kind: Kind, transactions: u64) -> Order {
        Order { server, kind, transactions, milliseconds: 20_000, core: None }
    }

    #[test]
    fn every_transaction_is_a_sample() {
        let address = server(|listener| drop(serve(&listener)));
        for kind in Kind::ALL {
            let trial = measure(&order(address, kind, 200)).unwrap();
            assert_eq!(trial.transactions, 200);
            let latency = trial.latency;
            assert!(latency.min > 0.0 && latency.min <= latency.p50 && latency.p50 <= latency.max);
            assert!(trial.by_rate() >= latency.min && trial.by_rate() <= latency.max, "{trial:?}");
        }
    }

    #[test]
    fn no_number_of_connections_uses_up_the_ports() {
        let address = server(|listener| drop(serve(&listener)));
        measure(&order(address, Kind::ConnectRequestResponse, 500)).unwrap();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // Columns: number, local and remote address, state; 06 is TIME_WAIT.
        let port = format!(":{:04X}", address.port());
        let waiting = table.lines().filter(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns.get(3) == Some(&"06") && columns[1..3].iter().any(|end| end.ends_with(&port))
        });
        assert_eq!(waiting.count(), 0);
    }

    #[test]
    fn time_is_a_bound_as_well() {
        let address = server(|listener| drop(serve(&listener)));
        let order = Order { milliseconds: 20, ..order(address, Kind::RequestResponse, u64::MAX) };
        let trial = measure(&order).unwrap();
        assert!(trial.transactions > 0 && trial.seconds >= 0.02);
    }

    #[test]
    fn a_connection_that_breaks_is_an_error() {
        let address = server(|listener| {
            let (mut connection, _) = listener.accept().unwrap();
            let mut message = [0; MESSAGE_BYTES];
            for _ in 0..WARM_UP + 7 {
                connection.read_exact(&mut message).unwrap();
                connection.write_all(&message).unwrap();
            }
        });
        let error = measure(&order(address, Kind::RequestResponse, 1_000)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("RR 8 with {address} failed")), "{error}");
    }

    #[test]
    fn a_wrong_response_is_an_error() {
        let address = server(|listener| {
            let (mut connection, _) = listener.accept().unwrap();
            let mut message = [0; MESSAGE_BYTES];
            connection.read_exact(&mut message).unwrap();
            message[MESSAGE_BYTES - 1] ^= 1;
            connection.write_all(&message).unwrap();
        });
        let error = measure(&order(address, Kind::RequestResponse, 1)).unwrap_err().to_string();
        assert!(error.contains("not that of the request"), "{error}");
    }
}
