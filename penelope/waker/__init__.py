"""Personas that sleep until they are needed, on one address: a process of its own beside the workers.

model       a persona, its policy, what is seen of its worker: values
config      `personas.toml`
lines       in which line of it a key stands
lifecycle   pure: stay, stop, renew; when to start again
driver      the port: where workers run
process     the first driver: child processes of this machine
records     what the first driver remembers of them on the disk
asking      a worker's `/activity`
keeper      one persona: its task, its states
wishes      what is asked of it, and how its task hears of it
watch       looks at one life of its worker until that has to end
failures    how often its worker failed, and when it is tried again
house       all personas: their nursery, reload, stop
gateway     `/p/{name}/api/v1/…`: one request passed on, both ways streamed
app         `/api/v1/personas` and the gates before it
workload    pure: the request log by hours
stores      what is read of a worker's store
metrics     `GET /metrics`
described   the OpenAPI document
run         the composition root of `penelope waker`
"""
