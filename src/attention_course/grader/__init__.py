"""From solutions to labs, and from submissions to grades: nbgrader's stock commands,
driven."""
