"""Slides for the meetings of the instructor's guide, made of the chapters' own parts.

`python -m scripts.slides SITE REVEAL TARGET`: SITE is the built book, REVEAL the folder
of reveal.js, TARGET what is made. `book/slides.yml` says what each meeting shows.
"""
