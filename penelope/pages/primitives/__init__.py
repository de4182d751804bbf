"""Primitives: one small typed function each, on Playwright's own page, with Playwright's own names for the options.

model       what a primitive is, and what all of them take
moving      goto, back, forward, reload, wait
acting      click, fill, type, press, hover, select, check, scroll, upload
reading     text, html, attribute, evaluate, screenshot, pdf
keeping     cookies, set-cookies, storage
table       all of them, by name

They run on the browser's side, so they are asyncio-flavoured, like a plugin's code.
"""
