//! The Gluster lab: one glusterd and its bricks in a network of their own.

use crate::engine::lab::Lab;
use crate::engine::session::Session;
use anyhow::{Result, bail};

pub static LAB: Lab = Lab {
    name: "gluster",
    what: "GlusterFS with brick multiplexing: memory of one process that serves up to 1,000 bricks",
    experiments: &[],
    settings: &[],
    up,
    run,
};

fn up(_: &Session) -> Result<()> {
    bail!("not yet")
}

fn run(_: &Session) -> Result<()> {
    bail!("not yet")
}
