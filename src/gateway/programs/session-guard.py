"""Stands before a server that asks nobody who he is. It starts that server (the command in argv, to which it adds a port at which
the server must listen on 127.0.0.1, which is this pod's own, or the path of a socket where $TANDEM_SESSION_SOCKET is), and passes on what carries the session's token: the gateway's requests
for the session's owner, WebSockets too. It ends with the server. TANDEM_GUARD_STRIP: the beginning of paths that the server does not know."""
import contextlib
import hmac
import http.client
import http.server
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time

PIECE, MOST, HOP = 1 << 16, 64 << 20, {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization", "proxy-connection"}
token, port, own = os.environ.pop("TANDEM_SESSION_TOKEN"), int(os.environ.get("PORT", "0")), os.environ.pop("TANDEM_SESSION_SOCKET", None)
strip = os.environ.pop("TANDEM_GUARD_STRIP", "")
os.environ.pop("TANDEM_SESSION_GUARD", None)
inner = f"{own}-in" if own else port + 1


def dial(timeout):
    if not own:
        return socket.create_connection(("127.0.0.1", inner), timeout)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    try:
        s.connect(inner)
    except OSError:
        s.close()
        raise
    return s


class Far(http.client.HTTPConnection):
    def connect(self):
        self.sock = dial(self.timeout)


class Guard(http.server.BaseHTTPRequestHandler):
    protocol_version, timeout = "HTTP/1.1", 300

    def answer(self, status, words):
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", str(len(words)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(words)

    def pass_on(self):
        said = self.headers.get("Authorization", "")
        if not hmac.compare_digest(said.encode(errors="replace"), f"token {token}".encode()):
            return self.answer(401, b"This session is its owner's: come by the gateway.\n")
        if strip and not self.path.startswith(f"{strip}/"):
            return self.answer(404, b"There is nothing here.\n")
        self.path = self.path[len(strip):]
        if self.headers.get("Upgrade"):
            return self.splice()
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not length.isdigit() or int(length) > MOST:
            return self.answer(413, b"The request is too large, or does not say how large it is.\n")
        body = self.rfile.read(int(length)) if int(length) else None
        drop = HOP | {"authorization"} | {w.strip().lower() for w in self.headers.get("Connection", "").split(",")}
        far = Far("127.0.0.1", timeout=300)
        try:
            far.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in drop - {"content-length"}:
                    far.putheader(name, value)
            far.endheaders(body)
            reply = far.getresponse()
            self.send_response_only(reply.status, reply.reason)
            sized = reply.getheader("Content-Length") is not None or self.command == "HEAD" or reply.status in (204, 304)
            for name, value in reply.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            if not sized:
                self.close_connection = True
                self.send_header("Connection", "close")
            self.end_headers()
            while piece := reply.read(PIECE):
                self.wfile.write(piece)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # what was begun cannot be taken back
        finally:
            far.close()

    def splice(self):
        """A WebSocket: once it is asked for, bytes are copied both ways until one end has closed."""
        self.close_connection = True
        with contextlib.suppress(OSError), dial(60) as far:
            for end in (far, self.connection):
                end.settimeout(None)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            own = [(k, v) for k, v in self.headers.items() if k.lower() not in HOP | {"authorization"}]
            lines = [f"{self.command} {self.path} HTTP/1.1", "Connection: Upgrade", f"Upgrade: {self.headers['Upgrade']}", *(f"{k}: {v}" for k, v in own), "", ""]
            far.sendall("\r\n".join(lines).encode("latin-1"))

            def up():
                with contextlib.suppress(OSError, ValueError):
                    while piece := self.rfile.read1(PIECE):
                        far.sendall(piece)
                with contextlib.suppress(OSError):
                    far.shutdown(socket.SHUT_WR)
            threading.Thread(target=up, daemon=True).start()
            while piece := far.recv(PIECE):
                self.wfile.write(piece)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = pass_on

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 64
    if own:
        address_family = socket.AF_UNIX
        server_bind = socketserver.TCPServer.server_bind  # it has no name and no port


def listens():
    try:
        dial(5).close()
        return True
    except OSError:
        return False


child = subprocess.Popen([*sys.argv[1:], str(inner)])
while child.poll() is None and not listens():  # who waits for this session waits for the port
    time.sleep(0.1)
if child.poll() is None:
    threading.Thread(target=Server(own or ("0.0.0.0", port), Guard).serve_forever, daemon=True).start()
sys.exit(abs(child.wait()))
