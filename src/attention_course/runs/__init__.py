"""What the commands do: train into a folder, load from it, decode, score, list.

Import from the module that a thing lives in. `training` alone imports Fabric, and
`about` and `listing` import no torch, since each takes a second or more.
"""
