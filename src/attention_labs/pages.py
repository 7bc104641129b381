"""Pages of the book that questions of several labs send their readers to."""

FORCING = "02_encoder_decoder.html#encoder-decoder-forcing"
MASK = "notation.html#notation-mask"
PADDING = "04_soft_lookup.html#soft-lookup-padding"
SCORING = "05_scoring.html#scoring-"  # and the name of the section
