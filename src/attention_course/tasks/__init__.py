"""The tasks: data sets that a model is trained on, with their losses and metrics.

There is one file per task. `core` holds what all tasks share, and `sequences` and
`labels` define the two main kinds of task. Nothing is downloaded.
"""
