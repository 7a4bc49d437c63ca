"""Tiny random checkpoints with real tokenizers, saved the way transformers saves them."""

import json
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The doctor was a woman and the nurse was a man.",
    "The female engineer said that she was late; he was not.",
    "A male teacher met the plumber, the baker and the lawyer in town.",
    "Who was a woman? She was a doctor. Who was a man? He was a nurse.",
    "The professor was a man, the carpenter was a woman, the dancer was female, the guard was male.",
] * 4
WORDS = sorted({word for line in CORPUS for word in line.lower().replace(".", " ").replace(",", " ").split()})
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _fast(tokenizer, **special):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)


def wordpiece():
    """BERT's: uncased, accents stripped, `##` pieces; a few whole words, all else by letters and short pieces."""
    whole = [word for word in WORDS if word.isalpha() and word not in ("plumber", "carpenter", "female", "dancer")]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,;?!'-()", *LETTERS, *(f"##{x}" for x in LETTERS),
                  "plum", "##ber", "car", "##pen", "##ter", "fe", "##male", *whole]  # fmt: skip
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return _fast(
        tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )


def _byte_level(special, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def gpt2():
    """Byte-level BPE that adds no special tokens; its one special token is BOS and EOS."""
    tokenizer = _byte_level(["<|endoftext|>"], 340)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _fast(tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>")


def roberta():
    """Byte-level BPE with <s> and </s> around a text; a mask that takes the space before it."""
    tokenizer = _byte_level(["<s>", "<pad>", "</s>", "<unk>"], 340)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), trim_offsets=True,
        add_prefix_space=False,
    )  # fmt: skip
    return _fast(
        tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )  # fmt: skip


def _unigram(special, size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", initial_alphabet=list(LETTERS), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # Training adds up in threads: order and last digits differ from one time to the next. Here they must not.
    made = json.loads(tokenizer.to_str())["model"]
    n = len(special)
    pieces = sorted((piece, round(score, 3)) for piece, score in made["vocab"][n:])
    tokenizer.model = models.Unigram([*map(tuple, made["vocab"][:n]), *pieces], made["unk_id"], False)
    return tokenizer


def xlmr():
    """Unigram over metaspaces, XLM-R's way: <s> and </s> around, every text begun by a metaspace."""
    tokenizer = _unigram(["<s>", "<pad>", "</s>", "<unk>"], 120)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")]
    )
    return _fast(
        tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )  # fmt: skip


def t5():
    """Unigram over metaspaces that ends every text with EOS and starts it with nothing."""
    tokenizer = _unigram(["<pad>", "</s>", "<unk>"], 120)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return _fast(tokenizer, eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


def sentinel():
    """T5's, with the one sentinel that stands for a blank."""
    tokenizer = t5()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<extra_id_0>"]})
    return tokenizer


def _bpe(special, bos):
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = trainers.BpeTrainer(
        vocab_size=240, special_tokens=special, initial_alphabet=[*LETTERS, "▁"], show_progress=False
    )
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = Tokenizer(models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return tokenizer


def llama():
    """BPE, Llama's way: BOS by default, a space put in front of every text, no EOS."""
    tokenizer = _bpe(["<unk>", "<s>", "</s>"], "<s>")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _fast(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def gemma():
    """BPE, Gemma's way: BOS by default, nothing put in front of a text."""
    tokenizer = _bpe(["<pad>", "<eos>", "<bos>", "<unk>"], "<bos>")
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return _fast(tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>")


def merging(*merges, alphabet="abcdefghijklmnopqrstuvwxyz ."):
    """BPE over the whole text, spaces and all, with just these merges: tokens that span words."""
    tokens = ["<unk>", "<s>", *alphabet, *("".join(pair) for pair in merges)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), unk_token="<unk>"))
    return _fast(tokenizer, bos_token="<s>", unk_token="<unk>")


TOKENIZERS = {make.__name__: make for make in (wordpiece, gpt2, roberta, xlmr, t5, sentinel, llama, gemma)}

_DEEP = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "hidden_size": 32}
CAUSAL = {
    "GPT2LMHeadModel": ("gpt2", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "LlamaForCausalLM": ("llama", "LlamaConfig", _DEEP | {"num_key_value_heads": 2, "max_position_embeddings": 64}),
    "Gemma3ForCausalLM": (
        "gemma",
        "Gemma3TextConfig",
        _DEEP
        | {
            "num_key_value_heads": 2,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "max_position_embeddings": 64,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "final_logit_softcapping": 3.0,
        },
    ),
    "GPTNeoXForCausalLM": ("gpt2", "GPTNeoXConfig", _DEEP | {"max_position_embeddings": 64}),
    "OPTForCausalLM": (
        "gpt2",
        "OPTConfig",
        {
            "hidden_size": 32,
            "word_embed_proj_dim": 32,
            "ffn_dim": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
}
MASKED = {
    "BertForMaskedLM": ("wordpiece", "BertConfig", _DEEP | {"max_position_embeddings": 64}),
    "RobertaForMaskedLM": ("roberta", "RobertaConfig", _DEEP | {"max_position_embeddings": 66}),
    "XLMRobertaForMaskedLM": ("xlmr", "XLMRobertaConfig", _DEEP | {"max_position_embeddings": 66}),
    "AlbertForMaskedLM": ("xlmr", "AlbertConfig", _DEEP | {"embedding_size": 16, "max_position_embeddings": 64}),
    "DistilBertForMaskedLM": (
        "wordpiece",
        "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
    ),
    "ModernBertForMaskedLM": (
        "wordpiece",
        "ModernBertConfig",
        _DEEP
        | {
            "max_position_embeddings": 64,
            "local_attention": 8,
            "layer_types": ["full_attention", "sliding_attention"],
        },
    ),
}
_BERT = MASKED["BertForMaskedLM"]
NEXT_SENTENCE = {"BertForPreTraining": _BERT, "BertForNextSentencePrediction": _BERT}
_SIDES = {
    "d_model": 32,
    **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (
        ("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))},
    "max_position_embeddings": 64,
}  # fmt: skip
SEQ2SEQ = {
    "BartForConditionalGeneration": ("roberta", "BartConfig", _SIDES | {"decoder_start_token_id": 2}),
    "MBartForConditionalGeneration": ("xlmr", "MBartConfig", _SIDES),
    "T5ForConditionalGeneration": (
        "sentinel",
        "T5Config",
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    ),
}
ARCHITECTURES = CAUSAL | MASKED
SPREAD = {
    "OPTConfig": "init_std",
    "BartConfig": "init_std",
    "MBartConfig": "init_std",
    "T5Config": "initializer_factor",
}


def build(architecture: str, *, seed: int = 0, **changes: object):
    """A random model and the tokenizer it goes with."""
    tokenizer_name, config_name, settings = (ARCHITECTURES | NEXT_SENTENCE | SEQ2SEQ)[architecture]
    tokenizer = TOKENIZERS[tokenizer_name]()
    spread = SPREAD.get(config_name, "initializer_range")
    special = {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id")
        for name in ("bos", "eos", "pad")
        if getattr(tokenizer, f"{name}_token_id") is not None
    }
    if "pad_token_id" not in special:
        special["pad_token_id"] = None
    config = getattr(transformers, config_name)(
        **(
            {spread: 1.0 if config_name == "T5Config" else 0.4, "vocab_size": len(tokenizer)}
            | special
            | settings
            | changes
        )
    )
    torch.manual_seed(seed)
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():  # biases and norms start at 0 or 1, where a mistake about them would not show
        for weights in model.parameters():
            if weights.dim() == 1:
                weights.add_(torch.randn_like(weights) * 0.2)
    return model, tokenizer


def save(folder: Path, architecture: str, *, seed: int = 0, **changes: object) -> Path:
    """A checkpoint's folder: config, weights, tokenizer."""
    model, tokenizer = build(architecture, seed=seed, **changes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
