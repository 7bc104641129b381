"""The sandbox in which students' code runs, from both sides of its walls.

Outside: `bubblewrap` (the walls and the limits), `nursery` (the warm process behind
them), `process` (what is forked from it for each student), `usage` (what that uses),
`text` (what it says) and `proof` (the walls tried before they are trusted). Inside:
`server` (it runs cells and answers questions), `notebook` (its cells), `stubs` (what
refuses) and `kernel` (what it gives up first).
"""
