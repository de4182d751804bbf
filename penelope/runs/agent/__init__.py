"""The agent: a run that a model works, step by step, with plugins and primitives as its tools.

pure:  model         what an agent is, how its YAML looks, and its bounds
       reading       YAML as an agent, with all that is wrong in it
       tools         plugins and primitives as the wire format's tools
       conversation  what the model is shown, and what of it is kept
       fitting       a tool's result as a text of a bounded length
       links         the files in a tool's result: handed to the client, kept from the model
       wire          a question and an answer, as the endpoint speaks them
       streamed      an answer that came in pieces
IO:    asking        the endpoint: one question, its retries and its time
       book          all agents of the folders, and the plan of a run of one
       work          the run itself

Source: contract, section 10 ("A prompt alone goes to the agent"); docs/agent.md.
"""
