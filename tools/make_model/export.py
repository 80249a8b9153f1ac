"""Writes the trained weights as GGUF: matrices in F16, vectors in F32."""
import numpy as np

import bpe
from gguf_py import write_gguf

# Only for programs that read templates; lumi renders Gemma 4's format itself.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<|turn>' + role + '\\n' + message['content'] | trim + '<turn|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}")


def metadata(c):
    g = "gemma4."
    return [("general.architecture", "str", "gemma4"), ("general.type", "str", "model"),
            ("general.name", "str", "lumi small"), ("general.license", "str", "mit"),
            ("general.description", "str", "Small Gemma-4-shaped demonstration model of lumi, "
                                           "trained on generated text"),
            ("general.file_type", "u32", 1),
            ("general.sampling.top_k", "i32", 64), ("general.sampling.top_p", "f32", 0.95),
            ("general.sampling.temp", "f32", 0.2),
            (g + "block_count", "u32", c.n_layer), (g + "context_length", "u32", 1024),
            (g + "embedding_length", "u32", c.n_embd),
            (g + "feed_forward_length", "[i32]", c.n_ff),
            (g + "attention.head_count", "u32", c.n_head),
            (g + "attention.head_count_kv", "u32", c.n_head_kv),
            (g + "attention.layer_norm_rms_epsilon", "f32", c.eps),
            (g + "attention.key_length", "u32", c.head_dim_global),
            (g + "attention.value_length", "u32", c.head_dim_global),
            (g + "attention.key_length_swa", "u32", c.head_dim_swa),
            (g + "attention.value_length_swa", "u32", c.head_dim_swa),
            (g + "attention.sliding_window", "u32", c.window),
            (g + "attention.sliding_window_pattern", "[bool]", c.is_swa),
            (g + "attention.shared_kv_layers", "u32", c.n_layer - c.n_layer_kv),
            (g + "embedding_length_per_layer_input", "u32", c.n_ple),
            (g + "final_logit_softcapping", "f32", c.softcap),
            (g + "rope.freq_base", "f32", c.theta_global),
            (g + "rope.freq_base_swa", "f32", c.theta_swa),
            (g + "rope.dimension_count", "u32", c.head_dim_global),
            (g + "rope.dimension_count_swa", "u32", c.head_dim_swa)]


def write_model(path, config, weights, vocabulary):
    tensors = []
    for name, tensor in weights.items():
        array = tensor.detach().numpy().astype(np.float32)
        tensors.append((name, array.astype(np.float16) if array.ndim > 1 else array))
    write_gguf(path, metadata(config) + bpe.tokenizer_metadata("gemma4", vocabulary)
               + [("tokenizer.chat_template", "str", CHAT_TEMPLATE)], tensors)
