"""What a run recorded of a pipeline, as rows of actions that can be replayed."""
