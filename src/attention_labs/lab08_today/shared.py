"""Axes, sections of the book and sentences, shared by several questions of lab 8."""

from attention_labs.lab04_alignment.shared import LEAVES_OUT as LEAVES_OUT
from attention_labs.rules import EVERYWHERE as EVERYWHERE
from nbjudge import Axis

B, T = Axis("sentences"), Axis("tokens", long=300)
TURN = "18_positions_heads.html#positions-heads-turn"
SHARE = "18_positions_heads.html#positions-heads-share"
