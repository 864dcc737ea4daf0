"""A WebSocket client of a few lines (RFC 6455): what a browser sends, and headers of one's own."""
import base64
import os
import socket
import struct


class WebSocket:
    def __init__(self, address, path, headers=None, timeout=120, tls=None):
        """tls: the context with which it connects, if it does so by TLS."""
        host, _, port = address.partition(":")
        self.s = socket.create_connection((host, int(port or 443)), timeout)
        if tls:
            self.s = tls.wrap_socket(self.s, server_hostname=host)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {address}", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
        self.s.sendall("\r\n".join([*lines, *(f"{k}: {v}" for k, v in (headers or {}).items()), "", ""]).encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            more = self.s.recv(65536)
            if not more:
                break
            self.rest += more
        self.head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        self.status = int(self.head.split()[1])

    def send(self, data):
        op, data = (1, data.encode()) if isinstance(data, str) else (2, data)
        mask = os.urandom(4)
        n = len(data)
        size = struct.pack("!B", 0x80 | n) if n < 126 else struct.pack("!BH", 0x80 | 126, n) if n < 65536 else struct.pack("!BQ", 0x80 | 127, n)
        self.s.sendall(bytes([0x80 | op]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def _take(self, n):
        while len(self.rest) < n:
            more = self.s.recv(65536)
            if not more:
                raise EOFError("the other end is gone")
            self.rest += more
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def receive(self):
        """(opcode, data) of the next frame."""
        a, b = self._take(2)
        n = b & 0x7f
        n = struct.unpack("!H", self._take(2))[0] if n == 126 else struct.unpack("!Q", self._take(8))[0] if n == 127 else n
        return a & 15, self._take(n)

    def until(self, wanted):
        """Everything up to these bytes."""
        said = b""
        while wanted not in said:
            op, data = self.receive()
            if op == 8:
                raise EOFError(f"closed after {said!r}")
            said += data if op in (0, 1, 2) else b""
        return said

    def close(self):
        self.s.close()
