"""Others that open pages or take jobs over HTTP, each as its makers publish it.

installing   into environments of their own under a cache folder
listed       all that is installed
here         what a way to pages is, and the demo site's pages that all of them open
script       Playwright alone, without HTTP: the floor
webdriver, mcp, browserless
             chromedriver; @playwright/mcp over its HTTP transport; the npm library browserless behind `browserless.mjs`
jobs_server  the PraisonAI jobs server; runs in an environment of its own
"""
