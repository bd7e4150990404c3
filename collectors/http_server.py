"""An HTTP/1.1 server for requests from strangers: cheroot's threads, with bounds on what one sender may hold.

A connection takes a thread only once it has said something, each request has a deadline for all of it (so that one
byte at a time wins nothing), headers are capped, connections are counted, and the TLS handshake runs in a worker under
the same deadline, never in the thread that accepts.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HeaderReader, HTTPConnection, HTTPRequest
from cheroot.ssl import Adapter
from cheroot.wsgi import Server

from collectors.receiver_security import TlsFiles

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_log = logging.getLogger(__name__)

_MOST_HEADER_BYTES = 32 * 1024
_MOST_DRAINED_BYTES = 64 * 1024
_BACKLOG = 128


class BoundedServer(Server):
    """Serves `app` at `address` with `threads` workers, for `connections` at most.

    A connection that is silent between requests is closed after `idle_s`, one that has not delivered a whole request
    `request_s` after its first byte too. `on_tls_failure` hears of each handshake that failed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        app: WSGIApplication,
        *,
        threads: int,
        connections: int,
        idle_s: float,
        request_s: float,
        tls: TlsFiles | None,
        on_tls_failure: Callable[[], None],
    ) -> None:
        super().__init__(address, app, numthreads=threads, server_name="groundwatch")
        self.software = "groundwatch"
        self.timeout = idle_s
        self.request_s = request_s
        self.request_queue_size = _BACKLOG
        self.keep_alive_conn_limit = connections
        self.max_request_header_size = _MOST_HEADER_BYTES
        self.on_tls_failure = on_tls_failure
        self.ConnectionClass = _Connection
        if tls is not None:
            self.ssl_adapter = _TlsAdapter(tls)

    @classmethod
    def bind_socket(cls, socket_: socket.socket, bind_addr: tuple[str, int]) -> socket.socket:
        """Bind, and leave no socket behind where the port is taken."""
        try:
            bound: socket.socket = super().bind_socket(socket_, bind_addr)  # type: ignore[no-untyped-call]
        except OSError:
            socket_.close()
            raise
        return bound

    def process_conn(self, conn: Any) -> None:
        """Hand a connection that has something to read to a worker; let a new one wait without one until it has."""
        if conn.last_used is not None:
            super().process_conn(conn)
        elif self.can_add_keepalive_connection:
            self._connections.put(conn)  # type: ignore[attr-defined]
        else:
            conn.close()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Complain in the log, not on standard error."""
        _log.log(level, "%s", msg, exc_info=traceback)


class _HeaderReader(HeaderReader):
    """cheroot takes a continuation line for one of the header before it, and breaks where there is none."""

    def __call__(self, rfile: Any, hdict: Any = None) -> Any:
        try:
            return super().__call__(rfile, hdict)
        except UnboundLocalError as error:
            raise ValueError("Illegal continuation line.") from error


class _Request(HTTPRequest):
    """A request whose body, where it is answered unread, is not taken in for the sake of the next one: cheroot would
    hold all that was announced in memory, and take unread chunks for a request."""

    header_reader = _HeaderReader()

    def send_headers(self) -> None:
        """Close the connection after an answer that leaves more of the body unread than a packet or two."""
        unread = getattr(self.rfile, "remaining", 0)
        if unread > _MOST_DRAINED_BYTES or (self.chunked_read and not self.rfile.closed):
            self.close_connection = True
        super().send_headers()


class _Connection(HTTPConnection):
    """A connection whose every request must be read within the server's `request_s`."""

    RequestHandlerClass = _Request

    def __init__(self, server: BoundedServer, sock: socket.socket, _makefile: object = None) -> None:
        super().__init__(server, sock, _file)
        self._greeted = False

    def communicate(self) -> bool:
        """Serve one request; True where the connection stays open."""
        self.rfile.timed.ends = time.monotonic() + self.server.request_s
        if not self._greeted and isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.settimeout(self.server.request_s)
                self.socket.do_handshake()
            except (OSError, ValueError) as error:
                _log.info("no TLS with %s: %s", self.remote_addr, error)
                self.server.on_tls_failure()
                return False
        self._greeted = True
        return bool(super().communicate())  # type: ignore[no-untyped-call]


class _TimedIO(socket.SocketIO):
    """Reads from a socket until `ends`, on the monotonic clock."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, "r")
        self.ends = 0.0
        self.socket = sock

    def readinto(self, buffer: Any) -> int | None:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.socket.settimeout(left)
        return super().readinto(buffer)


class _Reader(StreamReader):
    def __init__(self, sock: socket.socket, bufsize: int) -> None:
        super().__init__(sock, "r", bufsize)
        self.timed = self._raw = _TimedIO(sock)  # in place of the one that waits anew at every byte

    def has_data(self) -> bool:
        """Whether something was received that nobody has read, of which TLS may hold more than the buffer."""
        sock = self.timed.socket
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        return bool(super().has_data())  # type: ignore[no-untyped-call]


def _file(sock: socket.socket, mode: str, bufsize: int) -> Any:
    return _Reader(sock, bufsize) if "r" in mode else StreamWriter(sock, mode, bufsize)


class _TlsAdapter(Adapter):
    """Wraps accepted sockets without waiting for the other side's greeting."""

    def __init__(self, files: TlsFiles) -> None:
        super().__init__(str(files.settings.certificate), str(files.settings.key))
        self._files = files

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        self._files.renewed()
        wrapped = self._files.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, self.get_environ(wrapped)

    def get_environ(self, _sock: object = None) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return _file(sock, mode, bufsize)
