"""`GET /metrics` in Prometheus' text format.

Source: contract, section 1.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penelope.http.worker import Worker

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class WorkerCollector(Collector):
    """The worker's numbers, read when they are asked for."""

    def __init__(self, worker: Worker, jobs_held: int) -> None:
        self._worker = worker
        self._jobs_held = jobs_held

    def collect(self) -> Iterator[Metric]:
        worker = self._worker
        supervisor = worker.supervisor
        gauges = {
            "penelope_in_flight": ("Calls at work and webhook jobs not yet settled.", supervisor.in_flight),
            "penelope_jobs_held": ("Jobs held, running ones included.", self._jobs_held),
            "penelope_runs_queued": ("Runs that wait for a page.", worker.runs.queued),
            "penelope_runs_at_work": ("Runs at work.", len(worker.runs.at_work)),
            "penelope_deliveries_pending": (
                "Webhook jobs that wait for an attempt.",
                len(supervisor.deliveries.pending),
            ),
            "penelope_pages_open": ("Pages open.", len(list(worker.pages))),
            "penelope_media_unclaimed_bytes": ("Files not yet downloaded.", worker.media.unclaimed),
            "penelope_browser_up": ("1 while the browser is up.", int(worker.pages.driver.health.up)),
            "penelope_store_owed": (
                "Ends of jobs and runs that the store has yet to take.",
                supervisor.ends.owed + worker.runs.owed,
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        calls = CounterMetricFamily(
            "penelope_calls", "Calls and jobs that ended, by work and status.", labels=["work", "status"]
        )
        for (what, status), count in supervisor.ended.items():
            calls.add_metric([what, str(status)], count)
        yield calls
        posts = CounterMetricFamily(
            "penelope_webhook_posts",
            "Webhook POSTs, by verdict and error class.",
            labels=["verdict", "error_class"],
        )
        for (verdict, error_class), count in supervisor.deliveries.posts.items():
            posts.add_metric([verdict, error_class], count)
        yield posts


def render(worker: Worker, jobs_held: int) -> bytes:
    """All metrics, as text."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(worker, jobs_held))
    return generate_latest(registry)
