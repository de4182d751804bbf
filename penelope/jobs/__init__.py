"""The job engine: pure decisions (model, schedule, transitions, options, signature, views) and their shell."""
