"""Tasks: what a model is trained on and scored by.

One file per task; `core` is what all share, `sequences` and `labels` are the two kinds.
Nothing is downloaded.
"""
