// The library browserless over HTTP: node browserless.mjs FOLDER CHROMIUM PORT
//
// POST /title {"context", "url"} and POST /evaluate {"context", "expression"} answer {"result"}. Of the library's own
// only what it does to a page before it is asked for is left out: blocking ads, waiting for the network to be quiet.

import http from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [folder, executablePath, port] = process.argv.slice(2)
const createBrowserless = createRequire(join(folder, 'here.js'))('browserless')
const browserless = createBrowserless({ executablePath })
const contexts = new Map()

function context (name) {
  if (!contexts.has(name)) contexts.set(name, browserless.createContext())
  return contexts.get(name)
}

const asked = {
  '/title': async ({ context: name, url }) =>
    (await context(name)).evaluate(page => page.title(), { adblock: false, waitUntil: 'load' })(url),
  '/evaluate': async ({ context: name, expression }) =>
    (await context(name)).withPage(page => () => page.evaluate(expression))()
}

const server = http.createServer(async (request, response) => {
  let status = 200
  let said = {}
  try {
    let body = ''
    for await (const part of request) body += part
    if (request.method === 'POST') said = { result: await asked[request.url](JSON.parse(body)) }
  } catch (error) {
    status = 500
    said = { error: String(error) }
  }
  const bytes = Buffer.from(JSON.stringify(said))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
})

server.listen(Number(port), '127.0.0.1')
process.on('SIGTERM', () => browserless.close().finally(() => process.exit(0)))
