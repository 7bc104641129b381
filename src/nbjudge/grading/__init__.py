"""From submissions to grades: the instructor's half of nbjudge.

It works behind nbgrader's usual commands. `intake` reads what was handed in, `sandbox`
runs it in isolation, and `judge` sends requests and decides outside the sandbox, over
`wire`. `record` and `report` present the results, and `converter` hands them to
nbgrader's gradebook. `fidelity` tests the questions themselves. This package may import
the vocabulary of nbjudge, but it imports a course only by the name in the
configuration.
"""
