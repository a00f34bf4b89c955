"""Connections of the service, by sockets of this machine."""

import socket
import threading
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial

import pytest
import uvicorn

from hf_gile.serving import Connection, Limits, describe, make_app

PROJECT = describe("mesh", 5, "en", datetime(2026, 11, 23, tzinfo=UTC))
SUGGEST = "/v1/projects/mesh/suggest"
TOKEN = "mellon-und-tritt-ein"
HALF_A_HEADER = b"POST /v1/projects HTTP/1.1\r\nHost: a\r\nX-A: "
HALF_A_BODY = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n" % SUGGEST.encode()
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
AUTHORIZATION = b"Authorization: Bearer %b\r\n" % TOKEN.encode()


class Unlabelled:
    """Stands for a `Suggester` that suggests nothing."""

    read = list

    def __call__(self, texts):
        return [[] for _ in texts]


@pytest.fixture
def serve():
    """Serves without a model; returns a function that opens a connection and sends bytes."""
    with ExitStack() as stack:

        def start(token=TOKEN, **limits):
            bounds = Limits(**limits)
            app = make_app(Unlabelled(), PROJECT, bounds, token)
            protocol = partial(Connection, limits=bounds, opened={})
            server = uvicorn.Server(uvicorn.Config(app, port=0, http=protocol, ws="none", log_level="error"))
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=server.run, args=([listener],))
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)

            def connect(sent):
                connection = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=10))
                connection.sendall(sent)
                return connection

            return connect

        yield start


def status(connection):
    """Reads the status of an answer; 0 if the connection is closed instead."""
    try:
        answer = connection.recv(1 << 16)
    except ConnectionResetError:
        return 0
    return int(answer.split()[1]) if answer else 0


def suggest(connect, header=AUTHORIZATION):
    body = b"text=milk"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return connect(b"POST %b HTTP/1.1\r\nHost: a\r\n" % SUGGEST.encode() + FORM + header + length + body)


def test_requests_without_the_token_take_nothing_from_the_limits_of_a_client(serve):
    connect = serve(requests=2)
    strangers = [connect(HALF_A_BODY + b"\r\ntext=") for _ in range(5)]
    assert [status(connection) for connection in strangers] == [401] * 5
    assert status(suggest(connect)) == 200
    slow = [connect(HALF_A_BODY + AUTHORIZATION + b"\r\ntext=") for _ in range(2)]
    assert status(suggest(connect)) == 429
    assert len(slow) == 2


HALVES = {
    "nothing": (b"", b""),
    "half a header": (HALF_A_HEADER, b""),
    "half a body": (HALF_A_BODY + b"\r\ntext=", b"HTTP/1.1 401"),
    "half a body with the token": (HALF_A_BODY + AUTHORIZATION + b"\r\ntext=", b"HTTP/1.1 408"),
}


@pytest.mark.parametrize(("sent", "answer"), HALVES.values(), ids=HALVES)
def test_a_request_that_does_not_arrive_closes_its_connection(serve, sent, answer):
    connection = serve(seconds=0.1)(sent)
    received = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            received += part
    assert received[:12] == answer


def test_many_half_headers_do_not_shut_out_a_request(serve):
    connect = serve(connections=5)
    strangers = [connect(HALF_A_HEADER) for _ in range(23)]
    assert status(suggest(connect)) == 200
    assert [status(connection) for connection in strangers[:18]] == [0] * 18
