"""Tasks: what a model is trained on and scored by. One file per task; nothing is
downloaded."""
