"""The browser: a real Chromium behind the port of `pages.driver`. Only here do Playwright and asyncio meet Trio.

loop      the asyncio loop of the browser's thread            asyncio
run       one call in that thread                             both, each function says its flavour
crossing  its way back to Trio                                both, each function says its flavour
thread    the thread itself                                   Trio
node      the driver's process; one that is started ahead      neither
adopted   that one, as one of asyncio's                       asyncio
watch     sees a blocked thread, and frees it                 Trio
find      which browser                                       neither
gated     what a failure behind the gate means                 neither
profile   the profile's lock, its orphans, the temp folder    neither
persona   what makes it a persona's: languages, zone, proxy      neither
launch    the command line, the launcher, the sandbox         neither
processes ends process trees, tells whether one lives         neither
session   one started browser                                 asyncio
live      one page of Playwright's, with what we know of it   asyncio
heal      makes a page answer again                           asyncio
guard     ends a download, or a renderer, that takes too much  asyncio
heartbeat ends a renderer that does not answer                asyncio
inner     what we take from Playwright's inside               asyncio
translate Playwright's errors to Penelope's                   neither
urls      which addresses a page may be sent to               neither
tab       the stable handle of a page                         Trio
keeper    keeps a browser up                                  Trio
driver    its pages and cookies; `open_browser`               Trio
"""
