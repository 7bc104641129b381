"""The sandbox in which students' code runs: the code outside it and the code inside.

Outside: `bubblewrap` (the isolation and the limits), `nursery` (the warm process in
isolation), `process` (the process forked from it for each student), `usage` (its memory
and CPU time), `text` (cleans its output) and `proof` (tests the isolation before it is
trusted). Inside: `server` (runs cells and answers requests), `notebook` (runs a
notebook's cells), `stubs` (refuse calls to ready-made answers) and `kernel` (gives up
privileges first).
"""
