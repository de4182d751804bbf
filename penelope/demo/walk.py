"""The demo: what a newcomer would type, typed for them, on real parts, each step checked.

It starts the stand-in site and a webhook receiver in this process and a worker as a child; it ends all three.

Source: contract, section 2 (a plain call), 5 (jobs), 6 (media), 8 (stops).
"""

import secrets
import signal
import tempfile
from pathlib import Path
from typing import Final

import trio

from penelope.demo.child import StepFailed, open_worker
from penelope.demo.serving import free_port
from penelope.demo.show import Show
from penelope.demo.site import serve_site
from penelope.demo.steps import Walk
from penelope.demo.webhook import Delivery, serve_receiver

WALK_S: Final = 120.0
FAILED: Final = 1
INTERRUPTED: Final = 130  # as a shell would say it: 128 + SIGINT


async def run_demo(out: Path | None, show: Show | None = None) -> int:
    """Walk through both ways of a job.

    Args:
        out: the folder for the screenshot; None: `penelope-demo` in the system's temporary folder.
        show: where to say it; None: the terminal.

    Returns:
        The exit code: 0 when every step worked, 1 when one did not, 130 when it was interrupted.
    """
    show = show or Show()
    folder = out or Path(tempfile.gettempdir()) / "penelope-demo"
    outcome = INTERRUPTED
    with tempfile.TemporaryDirectory(prefix="penelope-demo-", ignore_cleanup_errors=True) as home:
        async with trio.open_nursery() as nursery:
            await nursery.start(_cancel_at_signal, nursery.cancel_scope)
            outcome = await _walk(show, Path(home), folder)
            nursery.cancel_scope.cancel(reason="the walk is over")
    if outcome == INTERRUPTED:
        show.failed("interrupted; the worker was stopped")
    return outcome


async def _cancel_at_signal(
    scope: trio.CancelScope, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            scope.cancel(reason=f"signal {signal.Signals(number).name}")


async def _walk(show: Show, home: Path, folder: Path) -> int:
    """Everything the steps need, around the steps."""
    began = trio.current_time()
    key = secrets.token_urlsafe(24)
    send, deliveries = trio.open_memory_channel[Delivery](8)
    outcome = FAILED
    async with trio.open_nursery() as nursery:
        site = await nursery.start(serve_site, 0)
        hook = await nursery.start(serve_receiver, key, send)
        port = free_port("127.0.0.1")
        async with open_worker(key=key, port=port, site=site, home=home) as worker:
            try:
                with trio.fail_after(WALK_S):
                    await Walk(show, worker, key=key, site=site).all(hook, deliveries, folder)
                show.verified(f"Everything worked, in {trio.current_time() - began:.1f} s.")
                outcome = 0
            except (StepFailed, trio.TooSlowError, OSError) as error:
                show.failed(str(error) or f"the walk was not over after {WALK_S:.0f} s")
                show.note("The worker's last log lines:")
                show.log(worker.last_log_lines())
        nursery.cancel_scope.cancel(reason="the walk is over")
    return outcome
