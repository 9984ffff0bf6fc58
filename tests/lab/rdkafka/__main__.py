"""The process behind `RdkafkaClient`: hosts librdkafka clients and obeys the lab's commands."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import confluent_kafka

from tests.lab.rdkafka.delivery import Delivery
from tests.lab.rdkafka.producers import HostedProducer, HostedRequests
from tests.lab.rdkafka.readers import HostedAdmin, HostedConsumer

if TYPE_CHECKING:
    from tests.lab.rdkafka.hosted import Hosted

__all__ = ["main"]


class Program:
    """The clients by name, and the commands."""

    def __init__(self, deliver: Delivery) -> None:
        self._deliver = deliver
        self._hosted: dict[str, Hosted] = {}
        self._closed: list[Hosted] = []
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Obey until standard input ends: the process cannot outlive the lab."""
        version = confluent_kafka.libversion()[0]
        self._answer("ready", {"version": version}, None)
        for line in sys.stdin:
            number, verb, *pairs = line.rstrip("\n").split("\t")
            split = (pair.partition("=") for pair in pairs)
            arguments = {key: unquote_plus(value) for key, _, value in split}
            threading.Thread(target=self._obey, args=(number, verb, arguments), daemon=True).start()

    def _obey(self, number: str, verb: str, arguments: dict[str, str]) -> None:
        try:
            result = self._execute(verb, arguments)
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._answer(number, None, repr(error))
        else:
            self._answer(number, result, None)

    def _answer(self, number: str, result: Any, error: str | None) -> None:
        with self._lock:
            print(json.dumps({"id": number, "result": result, "error": error}), flush=True)

    def _execute(self, verb: str, arguments: dict[str, str]) -> Any:
        if verb == "owners":
            everyone = [*self._hosted.values(), *self._closed]
            return [owner for hosted in everyone for owner in hosted.owners()]
        name = arguments["name"]
        if verb == "create":
            return self._create(name, arguments)
        client: Any = self._hosted[name]
        if verb == "send":
            client.stopping = False
            client.ask(lambda: client.send(arguments), wait=arguments["wait"] == "true")
            return client.status()
        if verb == "close":
            client.close()
            if not client.instances:
                self._closed.append(self._hosted.pop(name))
            return True
        return {
            "init": lambda: client.ask(client.init_transactions),
            "leak": lambda: client.ask(lambda: client.leak(int(arguments["count"]))),
            "poll": lambda: setattr(client, "polling", arguments["on"] == "true"),
            "ask": lambda: client.ask(lambda: client.query(arguments)),
            "stop": lambda: setattr(client, "stopping", True),
            "status": client.status,
        }[verb]()

    def _create(self, name: str, arguments: dict[str, str]) -> bool:
        if name in self._hosted:
            raise ValueError(f"{name} exists")
        prefix = "p."
        given = {
            key.removeprefix(prefix): value
            for key, value in arguments.items()
            if key.startswith(prefix)
        }
        kind = arguments["kind"]
        if kind == "producer":
            made: Hosted = HostedProducer(name, given, self._deliver)
        elif kind == "requests":
            made = HostedRequests(name, given, self._deliver, arguments)
        elif kind == "consumer":
            made = HostedConsumer(name, given, self._deliver, arguments)
        else:
            made = HostedAdmin(name, given, self._deliver)
        self._hosted[name] = made
        return True


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser()
    for target in ("post", "socket", "file"):
        parser.add_argument(f"--{target}")
    Program(Delivery(parser.parse_args())).serve()


if __name__ == "__main__":
    main()
