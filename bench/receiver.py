"""A webhook receiver that says when a POST had arrived whole. One at a time, standard library only.

    python -m bench.receiver [STATUS]

answers all with that status (200). It prints its port, then one JSON line per POST: `arrived` and the job's
`finished_at`, epoch seconds.
"""

import json
import socket
import sys
import time


def take(connection: socket.socket) -> bytes:
    """The body of one request."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        buffer += connection.recv(65536)
    head, _, body = buffer.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return body


def main() -> None:
    status = sys.argv[1] if sys.argv[1:] else "200"
    answer = f"HTTP/1.1 {status} So\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                body = take(connection)
                arrived = time.time()
                connection.sendall(answer)
            print(
                json.dumps({"arrived": arrived, "finished_at": json.loads(body)["finished_at"]}), flush=True
            )


if __name__ == "__main__":
    main()
