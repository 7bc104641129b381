"""Requirements of all labs for every answer, unless a question says otherwise."""

EVERYWHERE = {
    "lengths": "Your code must work for all lengths and all numbers of sentences from 1"
    " up, for large and for small numbers, in train mode and in eval mode. Gradients"
    " must be right, too. An input may be a view of another tensor, such as a transpose"
    " or a slice, so do not rely on its layout in memory. You may assume that all"
    " inputs are finite, that the vectors and parameters of one call have the same"
    " dtype, and that no square, product or sum in a formula overflows. An exponential,"
    " however, may overflow. Compute in the dtype of the inputs or in a more precise"
    " one: then rounding errors cost no points, even where large numbers cancel."
    " Positions and counts must be exact in every dtype.",
    "manners": "Do not change the inputs. The result must have the dtype of the vectors"
    " or parameters that it is computed from (float64, float32 or bfloat16), and must"
    " be on their device. An operation that PyTorch lacks in bfloat16 costs no points.",
}
