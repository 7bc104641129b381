"""From submissions to grades: the instructor's half of nbjudge.

It stands behind nbgrader's stock commands. `intake` reads what was handed in, `sandbox`
runs it behind walls, `judge` asks and decides outside them, over `wire`; `record` and
`report` say what became of it, and `converter` hands it to nbgrader's gradebook.
`fidelity` tries the questions themselves. It may import the vocabulary of nbjudge, and
a course only by the name in the configuration.
"""
