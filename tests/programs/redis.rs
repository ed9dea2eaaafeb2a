//! redis-server on the library, filled, reloaded and under its benchmark.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use vcmalloc_tests::{Ground, child, machine};

use crate::{Outcome, output_of};

/// A server on a free port of the loopback, ended when dropped.
struct Redis {
    server: std::process::Child,
    port: String,
}

impl Redis {
    fn start(ground: Ground, folder: &Path) -> Result<Redis, String> {
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port().to_string();
        let mut command = machine::debians("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "local", "--io-threads", "2"]);
        ground.prepare(&mut command)?;
        let log = File::create(folder.join("redis.log")).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        let server = child::apart(&mut command)
            .spawn()
            .map_err(|error| format!("redis-server did not start: {error}"))?;
        let mut redis = Redis { server, port };
        let start = Instant::now();
        while redis.ask(folder, &["ping"]).is_err() {
            let ended = matches!(redis.server.try_wait(), Ok(Some(_)));
            if ended || start.elapsed() > Duration::from_secs(20) {
                return Err(format!("redis-server does not answer:\n{}", redis.log(folder)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(redis)
    }

    fn log(&self, folder: &Path) -> String {
        child::tail(&fs::read_to_string(folder.join("redis.log")).unwrap_or_default())
    }

    /// The client runs on glibc: the server is what is tested.
    fn ask(&self, folder: &Path, words: &[&str]) -> Outcome {
        output_of(Ground::Glibc, folder, "redis-cli", &[&["-e", "-p", &self.port], words].concat())
    }

    fn stop(mut self, folder: &Path) -> Result<(), String> {
        let _ = self.ask(folder, &["shutdown", "nosave"]);
        let status = child::wait(&mut self.server, Duration::from_secs(20));
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("redis-server ended with {status}:\n{}", self.log(folder))),
            None => Err(format!("redis-server does not stop:\n{}", self.log(folder))),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Ok(None) = self.server.try_wait() {
            child::end_group(&self.server);
            let _ = self.server.wait();
        }
    }
}

pub fn data(ground: Ground, folder: &Path) -> Outcome {
    let redis = Redis::start(ground, folder)?;
    let fill = "for i = 1, 20000 do redis.call('set', 'key' .. i, string.rep('v', i % 700)) \
                redis.call('hset', 'hash' .. i % 500, 'field' .. i, i) redis.call('zadd', 'sorted', i * 7 % 1000, i) \
                redis.call('rpush', 'list' .. i % 20, string.rep('x', i % 90)) end \
                for i = 1, 20000, 3 do redis.call('del', 'key' .. i) end return redis.call('dbsize')";
    let mut output = redis.ask(folder, &["eval", fill, "0"])?;
    // Saves from a forked child and loads it again: the child and the reload use the heap in their own ways.
    redis.ask(folder, &["debug", "reload"])?;
    output.extend(redis.ask(folder, &["debug", "digest"])?);
    redis.ask(folder, &["bgsave"])?;
    redis.ask(folder, &["flushall"])?;
    redis.ask(folder, &["memory", "purge"])?;
    redis.stop(folder)?;
    Ok(output)
}

pub fn benchmark(ground: Ground, folder: &Path) -> Outcome {
    let redis = Redis::start(ground, folder)?;
    let load = ["-q", "-n", "20000", "-r", "5000", "-d", "300", "-P", "8", "-c", "50", "--threads", "2"];
    let kinds = ["-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,lrange_100,mset"];
    // The benchmark runs on the same ground: it is a threaded program too.
    let arguments = [&["-p", &redis.port][..], &load, &kinds].concat();
    output_of(ground, folder, "redis-benchmark", &arguments)?;
    redis.stop(folder)?;
    Ok(Vec::new())
}
