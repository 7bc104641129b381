"""Builders: sizes in, an untrained model out.

Here numbers become modules; the classes of Transformers take finished ones. A model's
arguments are given by name, and a name means the same everywhere:

    source_size     tokens in the source's vocabulary
    target_size     V, tokens in the target's vocabulary; vocab_size, where there is one
    num_classes     V, classes to choose from; num_labels, where each token gets one
    embedding_dim   width of a token's embedding, in recurrent models
    hidden_dim      of a recurrent model, the width of a decoder's state and query, and
                    of an encoder's state per direction; of a Transformer, the width
                    inside its feed-forward networks
    dim             D, width of a Transformer's embeddings and states
    num_heads       H, heads of each attention; they divide D
    num_key_heads   G, heads of keys that they share; these divide H
    num_layers      L, layers of the encoder; of gnmt and of Transformers on both sides
    score           compares queries of width hidden_dim with the encoder's states, 2
                    hidden_dim wide where nothing else is said
    cell            kind of the encoder's recurrent layers; the decoders have GRUs
    max_length      positions that are learned, in tokens
    positions       adds positions of width D; None: sines, or, in `attention_only`,
                    rotary ones
    base            of rotary positions
    pre_norm        normalize what a sub-layer reads, instead of the sum
    eps             keeps norms from dividing by 0
    tied            use the target's table as embedding and as output map
    look_up         see `GroupedQueryAttention`
    dropout         share that training drops: of embeddings, of what recurrent layers
                    of the encoder and the output map read; in a Transformer of
                    embeddings and of what a sub-layer adds
"""

from attention_course.models.families import attention_only, bert, gpt2, llama
from attention_course.models.readers import (
    captioner,
    classifier,
    frame_labeller,
    image_classifier,
    tagger,
)
from attention_course.models.recurrent import (
    bahdanau,
    context_every_step,
    final_state,
    gnmt,
    luong,
)
from attention_course.models.transformers import (
    decoder_block,
    decoder_only,
    encoder_block,
    encoder_only,
    patch_encoder,
    transformer,
    transformer_decoder,
)

__all__ = [
    "attention_only",
    "bahdanau",
    "bert",
    "captioner",
    "classifier",
    "context_every_step",
    "decoder_block",
    "decoder_only",
    "encoder_block",
    "encoder_only",
    "final_state",
    "frame_labeller",
    "gnmt",
    "gpt2",
    "image_classifier",
    "llama",
    "luong",
    "patch_encoder",
    "tagger",
    "transformer",
    "transformer_decoder",
]
