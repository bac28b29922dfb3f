"""Reading texts: tokenizers, masks of tokens, tables of texts."""

from rightreasons.datasets.texts.reading import dataset as dataset
from rightreasons.datasets.texts.spans import find_words as find_words
from rightreasons.datasets.texts.spans import token_mask as token_mask
from rightreasons.datasets.texts.tokenizers import WordTokenizer as WordTokenizer

__all__ = ["WordTokenizer", "dataset", "find_words", "token_mask"]
