"""Who does what is submitted: a recipe by its name, or the agent.

Source: contract, section 10 ("A recipe is …", "A prompt alone goes to the agent").
"""

from penelope.errors import RunRefused
from penelope.runs.recipes.book import Recipes
from penelope.runs.submission import Planned, Submission


class Planning:
    """The planner of a worker."""

    def __init__(self, recipes: Recipes) -> None:
        self._recipes = recipes

    def __call__(self, submission: Submission) -> Planned:
        """See `Planner`.

        Raises:
            RunRefused: there is nothing that could do it.
        """
        if submission.recipe_name:
            return self._recipe(submission.recipe_name, submission)
        raise RunRefused("prompt: there is no agent here to do it: name a recipe, in recipe_name")

    def _recipe(self, name: str, submission: Submission) -> Planned:
        plan = self._recipes.plan(name, submission.prompt, submission.config, submission.recipe_config)
        return Planned(
            work=plan.work,
            timeout_s=plan.timeout_s,
            webhook=plan.webhook_url,
            scope=plan.idempotency_scope,
            events=plan.events,
        )
