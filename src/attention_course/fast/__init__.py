"""Faster versions of functions of torch; they exist only for speed on a CPU.

Each module computes the same as a plain function of torch. It names this function and
the test that checks that the two agree, so when you read the course's models, you can
read the plain function instead.
"""
