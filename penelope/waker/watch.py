"""Looks at one life of a worker, whenever something may be due, until it has to end.

Source: contract, section 9.
"""

from collections.abc import Callable, Sequence
from typing import Final

import httpx

from penelope.clock import Clock
from penelope.waker import asking, lifecycle
from penelope.waker.lifecycle import Seen, Stay
from penelope.waker.model import Activity, Life, Policy, Why
from penelope.waker.wishes import Traffic, Wishes

ANSWER_S: Final = 10.0
ASK_AGAIN_S: Final = 10.0
SILENT_S: Final = 60.0  # for so long it may leave questions unanswered


class Watch:
    """One life. Cancelled, it leaves nothing.

    Attributes:
        key: that the worker was started with, as far as it is known.
        refused: it took none of the keys when it was last asked.
    """

    def __init__(
        self,
        life: Life,
        keys: Sequence[str],
        wishes: Wishes,
        traffic: Traffic,
        client: httpx.AsyncClient,
        clock: Clock,
    ) -> None:
        """
        Args:
            keys: those that it may have been started with, the likeliest first.
        """
        self.life = life
        self.key = keys[0]
        self.refused = False
        self._keys = tuple(keys)
        self._wishes = wishes
        self._traffic = traffic
        self._client = client
        self._clock = clock

    async def until_due(self, policy: Callable[[], Policy]) -> Why:
        """Why the worker has to end, as soon as it has to.

        Args:
            policy: the one that holds now.
        """
        heard_at = look_at = self._clock.now()
        while True:
            await self._wishes.pause(look_at - self._clock.now())
            said = None if self._wishes.told() else await self.ask(ANSWER_S)
            now = self._clock.now()
            if (why := self._wishes.told()) is not None:
                return why
            if said is not None:
                heard_at = now
                verdict = lifecycle.judge(policy(), self.seen(said), now)
                if not isinstance(verdict, Stay):
                    return verdict.why
                look_at = verdict.until
            elif self.refused and self._wishes.renew:
                # Of an earlier waker's, and with another key than the file now gives it: nobody can ask it.
                return self._wishes.renew
            elif now - heard_at >= SILENT_S:
                return Why.SILENT
            else:
                look_at = now + ASK_AGAIN_S

    async def ask(self, within_s: float) -> Activity | None:
        """What the worker says of itself; None: nothing, within the time."""
        if self.life.address is None:
            return None
        for key in dict.fromkeys((self.key, *self._keys)):
            try:
                said = await asking.activity(self._client, self.life.address, key, within_s)
            except asking.Refused:
                continue
            if said is not None:
                self.key, self.refused = key, False
            return said
        self.refused = True
        return None

    def seen(self, said: Activity) -> Seen:
        return Seen(
            activity=said,
            started_at=self.life.started_at,
            passing=self._traffic.passing,
            passed_at=self._traffic.passed_at,
            renew=self._wishes.renew,
        )
