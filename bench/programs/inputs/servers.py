"""Inputs of the set `servers`: `python3 servers.py NAME PORT` writes the file or folder NAME here. The same bytes each time."""
import os, shutil, subprocess, sys


def site():
    """nginx as it answers a page of forty parts, each a request inside the process."""
    os.makedirs("site/parts", exist_ok=True)
    page = ['<!--#set var="name" value="all" -->\n']
    for n in range(40):
        with open(f"site/parts/{n}.html", "w") as part:
            part.write(f'<p>part {n} of <!--#echo var="name" --> for <!--#echo var="remote_addr" --></p>\n' * 3)
        page.append(f'<!--#if expr="$name = all" --><!--#include virtual="/parts/{n}.html" --><!--#else -->none<!--#endif -->\n')
    with open("site/page.html", "w") as file:
        file.writelines(page)
    paths = " ".join(f"{kind}_temp_path {os.getcwd()}/site/{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    with open("site/nginx.conf", "w") as file:
        file.write(f"""daemon off;
worker_processes 1;
pid {os.getcwd()}/site/pid;
error_log {os.getcwd()}/site/errors;
events {{ worker_connections 512; }}
http {{
    {paths}
    access_log off;
    server {{ listen 127.0.0.1:{port}; root {os.getcwd()}/site; ssi on; open_file_cache max=100; }}
}}
""")


def balancer():
    """haproxy before a server of its own, which it reaches by a socket."""
    os.makedirs("balancer", exist_ok=True)
    with open("balancer/haproxy.cfg", "w") as file:
        file.write(f"""global
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend in
    bind 127.0.0.1:{port}
    http-request set-header X-Asked %[path,lower,word(1,/)]
    http-request capture req.hdr(Host) len 40
    default_backend out
backend out
    server one unix@{os.getcwd()}/balancer/socket
frontend answers
    bind unix@{os.getcwd()}/balancer/socket
    http-request return status 200 content-type text/plain lf-string "%[req.hdr(X-Asked)] {'answered ' * 100}"
""")


def directory():
    """A directory of 2,000 people and the names to look for."""
    shutil.rmtree("directory", ignore_errors=True)
    os.makedirs("directory/people")
    with open("directory/slapd.conf", "w") as file:
        file.write(f"""include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {os.getcwd()}/directory/pid
modulepath /usr/lib/ldap
moduleload back_mdb
threads 4
database mdb
suffix "o=all"
rootdn "cn=root,o=all"
directory {os.getcwd()}/directory/people
index uid,sn eq,sub
""")
    with open("directory/people.ldif", "w") as file:
        file.write("dn: o=all\nobjectClass: organization\no: all\n\n")
        for n in range(2000):
            file.write(f"""dn: uid=u{n},o=all
objectClass: inetOrgPerson
uid: u{n}
cn: Name {n}
sn: family{n % 100}
mail: u{n}@example.org
telephoneNumber: {1000000 + n}
description: {'one of many ' * 6}

""")
    with open("directory/families", "w") as file:
        file.writelines(f"family{n % 100}\n" for n in range(1200))
    slapadd = shutil.which("slapadd", path=os.environ["PATH"] + ":/usr/sbin")
    subprocess.run([slapadd, "-q", "-f", "directory/slapd.conf", "-l", "directory/people.ldif"], check=True)


def broker_conf():
    with open("broker.conf", "w") as file:
        file.write(f"""listener {port} 127.0.0.1
allow_anonymous true
user root
log_type error
max_queued_messages 0
max_inflight_messages 0
""")
    with open("messages", "w") as file:
        file.writelines(f"message {n} {'x' * (n % 300)}\n" for n in range(15000))


if __name__ == "__main__":
    port = sys.argv[2]
    globals()[sys.argv[1].replace(".", "_")]()
