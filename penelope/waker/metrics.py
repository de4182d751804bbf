"""`GET /metrics` of the waker, in Prometheus' text format: a persona a label.

Source: contract, section 9.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penelope.waker.gateway import Gateway
from penelope.waker.house import House
from penelope.waker.model import Activity, State

MIB = 2**20


class WakerCollector(Collector):
    """The waker's numbers, and what its workers said of themselves just now."""

    def __init__(self, house: House, gateway: Gateway, said: Mapping[str, Activity]) -> None:
        self._house, self._gateway, self._said = house, gateway, said

    def collect(self) -> Iterator[Metric]:
        yield from self._states()
        yield from self._workers()
        yield from self._events()

    def _states(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            "penelope_persona_state", "1 for the state that it is in.", labels=["persona", "state"]
        )
        passing = GaugeMetricFamily(
            "penelope_persona_passing", "Requests that the gateway passes on now.", labels=["persona"]
        )
        took = GaugeMetricFamily(
            "penelope_persona_start_seconds", "How long its worker's last start took.", labels=["persona"]
        )
        for keeper in self._house:
            for state in State:
                states.add_metric([keeper.name, state.value], int(keeper.state is state))
            passing.add_metric([keeper.name], keeper.traffic.passing)
            if keeper.started_in_s is not None:
                took.add_metric([keeper.name], keeper.started_in_s)
        yield from (states, passing, took)

    def _workers(self) -> Iterator[Metric]:
        in_flight = GaugeMetricFamily(
            "penelope_persona_in_flight", "What keeps its worker up.", labels=["persona"]
        )
        memory = GaugeMetricFamily(
            "penelope_persona_memory_bytes", "Of its worker and browser.", labels=["persona"]
        )
        for name, said in self._said.items():
            in_flight.add_metric([name], said.in_flight)
            memory.add_metric([name], said.memory_mb * MIB)
        yield from (in_flight, memory)

    def _events(self) -> Iterator[Metric]:
        starts = CounterMetricFamily("penelope_persona_starts", "Starts of its worker.", labels=["persona"])
        ends = CounterMetricFamily("penelope_persona_ends", "Ends of it.", labels=["persona", "why"])
        for keeper in self._house:
            for what, count in keeper.counts.items():
                if what == "start":
                    starts.add_metric([keeper.name], count)
                else:
                    ends.add_metric([keeper.name, str(what)], count)
        passed = CounterMetricFamily(
            "penelope_gateway_requests", "Requests through the gateway.", labels=["persona", "status"]
        )
        for (name, status), count in self._gateway.answered.items():
            passed.add_metric([name, str(status)], count)
        yield from (starts, ends, passed)


def render(house: House, gateway: Gateway, said: Mapping[str, Activity]) -> bytes:
    """All metrics, as text."""
    registry = CollectorRegistry()
    registry.register(WakerCollector(house, gateway, said))
    return generate_latest(registry)
