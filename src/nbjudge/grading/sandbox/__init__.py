"""The sandbox in which students' code runs, from both sides of its walls.

Outside: `bubblewrap` (the walls and the limits), `processes` (processes started, asked,
watched and killed) and `proof` (the walls tried before they are trusted). Inside:
`server` (it runs cells and answers questions) and `kernel` (what it gives up first).
"""
