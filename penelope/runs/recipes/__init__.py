"""Recipes: runs that are written down, step by step, in a `TEMPLATE.yaml`.

pure:  model      what a recipe is, and how its file looks
       document   YAML that knows on which line each of its values stands
       budget     how much a template may make
       values     values as JSON has them
       filters    what a template may do with its values
       sandbox    the language of the templates, which reaches values and nothing else
       templates  templates in a tree of values, and what they give
       inputs     a prompt as a recipe's input
       files      what a `file:` step writes
IO:    reading    a file as a recipe, with all that is wrong in it
       checking   steps held against the plugins and primitives that there are
       book       all recipes of the folders, and the plan of a run of one
       work       the run itself

Source: contract, section 10 ("A recipe is …"); docs/recipes.md.
"""
