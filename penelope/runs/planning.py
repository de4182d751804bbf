"""Who does what is submitted: a recipe by its name, or the agent.

Source: contract, section 10 ("A recipe is …", "A prompt alone goes to the agent").
"""

from penelope.errors import RunRefused
from penelope.runs.agent.book import Agents, Asked
from penelope.runs.recipes.book import Recipes
from penelope.runs.submission import Planned, Submission


class Planning:
    """The planner of a worker."""

    def __init__(self, recipes: Recipes, agents: Agents) -> None:
        self._recipes = recipes
        self._agents = agents

    def __call__(self, submission: Submission) -> Planned:
        """See `Planner`.

        Raises:
            RunRefused: there is nothing that could do it, or not so.
        """
        if submission.recipe_name:
            return self._recipe(submission.recipe_name, submission)
        return self._agent(submission)

    def _recipe(self, name: str, submission: Submission) -> Planned:
        plan = self._recipes.plan(name, submission.prompt, submission.config, submission.recipe_config)
        return Planned(
            work=plan.work,
            timeout_s=plan.timeout_s,
            webhook=plan.webhook_url,
            scope=plan.idempotency_scope,
            events=plan.events,
        )

    def _agent(self, submission: Submission) -> Planned:
        if submission.recipe_config:
            raise RunRefused("recipe_config: is a recipe's, and recipe_name names none")
        asked = Asked(
            prompt=submission.prompt,
            agent_yaml=submission.agent_yaml,
            agent_file=submission.agent_file,
            config=submission.config,
        )
        return Planned(work=self._agents.plan(asked))
