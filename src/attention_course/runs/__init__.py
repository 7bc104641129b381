"""What the commands do: train a run in a folder, load it, decode, evaluate, list runs.

The options of the commands are in `attention_course.cli`, and the training loop is in
`attention_course.training`. Import each function from its own module: only `training`
imports Fabric, and `about` and `listing` do not import torch, since each of these
imports takes a second or more.
"""
