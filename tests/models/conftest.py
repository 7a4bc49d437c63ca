"""Tiny checkpoints, each saved once per session; one CPU thread."""

from functools import cache

import pytest
import tiny
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A function from an architecture's name to a saved tiny checkpoint's folder."""

    @cache
    def folder(architecture):
        return tiny.save(tmp_path_factory.mktemp(architecture) / "model", architecture)

    return folder


@pytest.fixture(scope="session")
def tokenizer():
    """A function from a tokenizer's name to the tokenizer."""
    return cache(lambda name: tiny.TOKENIZERS[name]())
