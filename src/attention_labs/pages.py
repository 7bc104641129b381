"""Links to pages of the book, which the feedback of several labs gives."""

FORCING = "02_encoder_decoder.html#encoder-decoder-forcing"
MASK = "notation.html#notation-mask"
PADDING = "04_soft_lookup.html#soft-lookup-padding"
SCORING = "05_scoring.html#scoring-"  # and the name of the section

# What the headings of the sections say.
TITLES = {
    "02_encoder_decoder.html#encoder-decoder-encoder": (
        "The encoder: stacked, and in both directions"
    ),
    "02_encoder_decoder.html#encoder-decoder-forcing": "Teacher forcing",
    "02_encoder_decoder.html#encoder-decoder-generator": "A conditional generator",
    "02_encoder_decoder.html#encoder-decoder-handover": "Handing over",
    "02_encoder_decoder.html#encoder-decoder-inference": "Inference",
    "02_encoder_decoder.html#encoder-decoder-two": "One model, two accuracies",
    "03_bottleneck.html#bottleneck-decoders": "Three decoders, one encoder",
    "04_soft_lookup.html#soft-lookup-1964": "The same look-up in 1964",
    "04_soft_lookup.html#soft-lookup-padding": "Padding must have no say",
    "05_scoring.html#scoring-additive": "Additive, or concat, or a small network",
    "05_scoring.html#scoring-context": "From weights to a context",
    "05_scoring.html#scoring-cosine": "Cosine",
    "05_scoring.html#scoring-dot": "Dot",
    "05_scoring.html#scoring-general": "General, or bilinear",
    "05_scoring.html#scoring-interface": "One interface, two steps",
    "05_scoring.html#scoring-mask": "Mask before the softmax, not after",
    "05_scoring.html#scoring-scale": "Scaled dot: why the square root of the width?",
    "05_scoring.html#scoring-softmax": "From scores to weights",
    "06_bahdanau.html#bahdanau-maps": "The map, before and after",
    "06_bahdanau.html#bahdanau-step": "One step",
    "07_luong.html#luong-feeding": "Input feeding: remember where you have looked",
    "07_luong.html#luong-local": "Must it look everywhere?",
    "07_luong.html#luong-step": "One step: update, ask, mix",
    "11_self_attention.html#self-attention-order": (
        "No order without positional encodings"
    ),
    "12_many_heads.html#many-heads-equation": "The equation",
    "12_many_heads.html#many-heads-split": "The mistake that keeps every shape right",
    "13_transformer.html#transformer-decoder": "The decoder: do not look ahead",
    "13_transformer.html#transformer-stream": "The residual connection",
    "14_decoding.html#decoding-cache": "What a step keeps",
    "14_decoding.html#decoding-greedy": "The most probable token",
    "14_decoding.html#decoding-sampling": "Sampling a token",
    "16_transfer.html#transfer-folder": "A model is a folder",
    "16_transfer.html#transfer-load": "Load it, and put a new head on",
    "18_positions_heads.html#positions-heads-share": "Heads that share their keys",
    "18_positions_heads.html#positions-heads-turn": "Turn the query, turn the key",
    "19_without_the_matrix.html#without-the-matrix-running": (
        "A softmax that reads its scores once"
    ),
    "20_what_a_head_learns.html#what-a-head-learns-scores": "Where the heads look",
    "notation.html#notation-mask": "Masks",
}
