"""Who does what is submitted: a recipe by its name, or the agent.

Source: contract, section 10 ("A recipe is …", "A prompt alone goes to the agent").
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penelope.errors import RunRefused
from penelope.registry import Registry
from penelope.settings import Settings

if TYPE_CHECKING:
    from penelope.runs.agent.book import Agents
    from penelope.runs.recipes.book import Recipes
    from penelope.runs.submission import Planned, Submission


def load(settings: Settings, registry: Registry, environ: Mapping[str, str]) -> "Planning":
    """The planner of a worker, with the recipes and agents of its folders.

    What reads them is imported only where there are some: it takes a tenth of a start, and 7 MB.

    Raises:
        BadRecipe, BadAgent: a file that cannot be used; the message has the file and the line.
    """
    recipes: Recipes | None = None
    agents: Agents | None = None
    if settings.recipes:
        from penelope.runs.recipes import book

        recipes = book.load(settings.recipes, registry, environ)
    if settings.agents or settings.agent_url or settings.agent_model:
        from penelope.runs.agent import book as agent_book

        agents = agent_book.load(settings.agents, registry, agent_book.endpoint(settings))
    return Planning(recipes, agents)


class Planning:
    """The planner of a worker."""

    def __init__(self, recipes: "Recipes | None", agents: "Agents | None") -> None:
        """None: there are none."""
        self._recipes = recipes
        self._agents = agents

    def __call__(self, submission: "Submission") -> "Planned":
        """See `Planner`.

        Raises:
            RunRefused: there is nothing that could do it, or not so.
        """
        if submission.recipe_name:
            return self._recipe(submission.recipe_name, submission)
        return self._agent(submission)

    def _recipe(self, name: str, submission: "Submission") -> "Planned":
        from penelope.runs.submission import Planned

        if self._recipes is None:
            raise RunRefused(
                f"there is no recipe {name[:80]!r}: PENELOPE_RECIPES names no folder with recipes"
            )
        plan = self._recipes.plan(name, submission.prompt, submission.config, submission.recipe_config)
        return Planned(
            work=plan.work,
            timeout_s=plan.timeout_s,
            webhook=plan.webhook_url,
            scope=plan.idempotency_scope,
            events=plan.events,
        )

    def _agent(self, submission: "Submission") -> "Planned":
        from penelope.runs.submission import NO_AGENT, Planned

        if submission.recipe_config:
            raise RunRefused("recipe_config: is a recipe's, and recipe_name names none")
        if self._agents is None:
            raise RunRefused(NO_AGENT)
        from penelope.runs.agent.book import Asked

        asked = Asked(
            prompt=submission.prompt,
            agent_yaml=submission.agent_yaml,
            agent_file=submission.agent_file,
            config=submission.config,
        )
        return Planned(work=self._agents.plan(asked))
