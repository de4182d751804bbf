"""All primitives by name.

Source: contract, section 3 (primitives).
"""

from typing import Final

from penelope.pages.primitives import acting, keeping, moving, reading
from penelope.pages.primitives.model import Nothing, Primitive

PRIMITIVES: Final = {
    primitive.name: primitive
    for primitive in (
        Primitive("goto", moving.goto, moving.GotoOptions, moving.Went),
        Primitive("back", moving.back, moving.MoveOptions, moving.Went),
        Primitive("forward", moving.forward, moving.MoveOptions, moving.Went),
        Primitive("reload", moving.reload, moving.MoveOptions, moving.Went),
        Primitive("wait", moving.wait, moving.WaitOptions, Nothing),
        Primitive("click", acting.click, acting.ClickOptions, acting.Clicked),
        Primitive("fill", acting.fill, acting.FillOptions, Nothing),
        Primitive("type", acting.type_text, acting.TypeOptions, Nothing),
        Primitive("press", acting.press, acting.PressOptions, acting.Pressed),
        Primitive("hover", acting.hover, acting.HoverOptions, Nothing),
        Primitive("select", acting.select, acting.SelectOptions, acting.Selected),
        Primitive("check", acting.check, acting.CheckOptions, Nothing),
        Primitive("scroll", acting.scroll, acting.ScrollOptions, acting.Scrolled),
        Primitive("upload", acting.upload, acting.UploadOptions, Nothing),
        Primitive("text", reading.text, reading.ReadOptions, reading.Text),
        Primitive("html", reading.html, reading.HtmlOptions, reading.Html),
        Primitive("attribute", reading.attribute, reading.AttributeOptions, reading.AttributeValue),
        Primitive("evaluate", reading.evaluate, reading.EvaluateOptions, reading.Evaluated),
        Primitive("screenshot", reading.screenshot, reading.ScreenshotOptions, reading.File),
        Primitive("pdf", reading.pdf, reading.PdfOptions, reading.File),
        Primitive("cookies", keeping.cookies, keeping.CookiesOptions, keeping.Cookies),
        Primitive("set-cookies", keeping.set_cookies, keeping.SetCookiesOptions, Nothing),
        Primitive("storage", keeping.storage, keeping.StorageOptions, keeping.Storage),
    )
}
