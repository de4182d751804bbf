from typing import Annotated

from pydantic import BaseModel, Field

from penelope import Call, PluginError, plugin


class Headlines(BaseModel):
    headlines: list[str]


@plugin("news/headlines")
async def headlines(
    call: Call, url: Annotated[str, Field(pattern="^https?://")], limit: int = 10
) -> Headlines:
    """Read the headlines of a front page."""
    await call.page.goto(url)
    found = await call.page.get_by_role("heading").all_inner_texts()
    if not found:
        raise PluginError(f"{url} has no headlines", status=404)
    await call.progress(1.0, f"{len(found)} found")
    return Headlines(headlines=found[:limit])
