//! Servers that answer many short requests: the set `servers`.

use super::program::{Program, Words, server};

const ASK_NGINX: &str =
    "ab -q -n 6000 -c 16 http://127.0.0.1:{port}/page.html | grep -q '^Failed requests: *0$'";
const ASK_HAPROXY: &str =
    "ab -q -n 40000 -c 32 http://127.0.0.1:{port}/Name/more | grep -q '^Failed requests: *0$'";
const ASK_SLAPD: &str = "for n in 1 2 3 4; do ldapsearch -x -LLL -H ldap://127.0.0.1:{port} -b o=all -f directory/families '(sn=%s)' \
     > found$n & done; wait; grep -h ^dn: found1 found2 found3 found4 | wc -l | grep -qx 96000";
const ASK_MOSQUITTO: &str = "for n in 1 2 3 4; do mosquitto_sub -h 127.0.0.1 -p {port} -q 1 -t 'all/#' -C 30000 > got$n & done; sleep 0.4; \
     for n in 1 2; do mosquitto_pub -h 127.0.0.1 -p {port} -q 1 -t all/$n -l < messages & done; wait; \
     cat got1 got2 got3 got4 | wc -l | grep -qx 120000";

const fn row(name: &'static str, needs: Words, command: Words, load: &'static str) -> Program {
    server(name, needs, command, load).of("servers")
}

/// Each load proves that all was answered.
#[rustfmt::skip]
pub static SERVERS: &[Program] = &[
    row("nginx, pages of parts", "nginx ab python3", "nginx -p {folder}/site/ -c {folder}/site/nginx.conf", ASK_NGINX)
        .from("site").does(6_000, "pages of 40 parts"),
    row("haproxy", "haproxy ab python3", "haproxy -db -f balancer/haproxy.cfg", ASK_HAPROXY)
        .from("balancer").on(2).does(40_000, "requests passed on"),
    row("slapd", "slapd slapadd ldapsearch python3", "slapd -d 0 -h ldap://127.0.0.1:{port} -f directory/slapd.conf", ASK_SLAPD)
        .from("directory").on(4).does(4_800, "searches that find 20"),
    row("mosquitto", "mosquitto mosquitto_sub mosquitto_pub python3", "mosquitto -c broker.conf", ASK_MOSQUITTO)
        .from("broker.conf").does(30_000, "messages to four"),
];
