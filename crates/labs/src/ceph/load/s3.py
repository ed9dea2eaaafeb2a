"""PUTs or GETs objects through several S3 gateways at the same time, and says how many each answered how fast.

usage: s3.py put|get NOTES SECONDS THREADS BYTES KEY SECRET PORT...

NOTES is a file in which `put` leaves how many objects each thread wrote, for `get`. One JSON object on stdout.
"""

import json
import sys
import threading
import time

import boto3
from botocore.config import Config


def client_of(port, key, secret):
    settings = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}, max_pool_connections=2)
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=key,
                        aws_secret_access_key=secret, region_name="default", config=settings)


def put(s3, bucket, number, count, payload, _written):
    s3.put_object(Bucket=bucket, Key=f"{number}-{count}", Body=payload)


def get(s3, bucket, number, count, payload, written):
    body = s3.get_object(Bucket=bucket, Key=f"{number}-{count % written}")["Body"].read()
    assert body == payload, "an object came back changed"


def main():
    phase, notes = sys.argv[1:3]
    seconds, threads, size = (int(word) for word in sys.argv[3:6])
    key, secret, ports = sys.argv[6], sys.argv[7], [int(word) for word in sys.argv[8:]]
    payload = bytes(index % 251 for index in range(size))
    request = {"put": put, "get": get}[phase]
    written = {}
    if phase == "put":
        for port in ports:
            client_of(port, key, secret).create_bucket(Bucket=f"bucket-{port}")
    else:
        with open(notes) as file:
            written = json.load(file)
    begin = threading.Barrier(threads * len(ports))
    times = {port: [[] for _ in range(threads)] for port in ports}
    failed = []

    def work(port, number, s3):
        mine = times[port][number]
        known = written[str(port)][number] if written else 0
        begin.wait()
        end = time.monotonic() + seconds
        while not mine or time.monotonic() < end:
            before = time.monotonic()
            request(s3, f"bucket-{port}", number, len(mine), payload, known)
            mine.append(1000 * (time.monotonic() - before))

    def fail(hook):
        failed.append(repr(hook.exc_value))
        begin.abort()

    threading.excepthook = fail
    # Made here: boto3 cannot make clients in several threads at once.
    workers = [threading.Thread(target=work, args=(port, number, client_of(port, key, secret)))
               for port in ports for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        sys.exit(f"a request failed: {failed[0]}")
    if phase == "put":
        with open(notes, "w") as file:
            json.dump({port: [len(mine) for mine in by_thread] for port, by_thread in times.items()}, file)
    answer = {}
    for port, by_thread in times.items():
        every = sorted(time for mine in by_thread for time in mine)
        answer[port] = {"count": len(every), "mean_ms": sum(every) / len(every), "max_ms": every[-1]}
    print(json.dumps(answer))


main()
