"""Model builders: functions that turn sizes into an untrained model.

The classes in `transformer` take finished modules; the builders here take numbers. All
arguments of a model are keyword arguments, and a name means the same everywhere:

    source_size     tokens in the source's vocabulary
    target_size     V, tokens in the target's vocabulary; vocab_size if there is one
    num_classes     V, classes to choose from; num_labels if each token gets one
    embedding_dim   width of a token's embedding, in recurrent models
    hidden_dim      in a recurrent model, the width of a decoder's state and query, and
                    of an encoder's state per direction; in a Transformer, the width
                    inside its feed-forward networks
    dim             D, width of a Transformer's embeddings and states
    num_heads       H, heads of each attention; it must divide D
    num_key_heads   G, heads of keys that the H heads share; it must divide H
    num_layers      L, layers of the encoder; in gnmt and Transformers, on both sides
    score           compares queries of width hidden_dim with the encoder's states,
                    which have width 2 hidden_dim unless the builder says otherwise
    cell            kind of the encoder's recurrent layers; the decoders have GRUs
    max_length      number of learned positions, in tokens
    positions       adds positions of width D; None: sinusoidal or, in
                    `attention_only`, rotary positions
    base            base of rotary positions
    pre_norm        normalize a sub-layer's input instead of the sum
    eps             keeps norms from dividing by 0
    tied            use the target's table as embedding and as output map (weight tying)
    look_up         see `GroupedQueryAttention`
    dropout         share that is dropped in training: in recurrent models, of
                    embeddings and of the inputs of the encoder's recurrent layers and
                    of the output map; in a Transformer, of embeddings and of what a
                    sub-layer adds
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
