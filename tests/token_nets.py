"""Small nets for token ids and a batch of texts, for several test files."""

import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets.dataset import TextCard

VOCABULARY = 20
TEXT = TextCard(VOCABULARY, mask_token=2, special=(0, 1, 2), substitutes=(5, 7, 11, 13))


def tiny_bert(attention="sdpa"):
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
        num_labels=3,
        attn_implementation=attention,
    )
    return rr.models.huggingface(BertForSequenceClassification(config)).double()


NETS = {
    "text_mlp": lambda: rr.models.text_mlp(
        vocabulary=VOCABULARY, classes=3, width=5, hidden=(6,), activation="tanh"
    ).double(),
    "text_cnn": lambda: rr.models.text_cnn(
        vocabulary=VOCABULARY, classes=3, width=4, filters=3, kernels=(1, 3)
    ).double(),
    "text_lstm": lambda: rr.models.text_lstm(
        vocabulary=VOCABULARY, classes=3, width=4, states=5
    ).double(),
    "bert, sdpa": tiny_bert,
    "bert, eager": lambda: tiny_bert("eager"),
}


def embedding_of(net: nn.Module) -> nn.Embedding:
    return next(module for module in net.modules() if isinstance(module, nn.Embedding))


def texts() -> rr.Batch:
    """Six texts of three to seven tokens, some masked, three groups."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([7, 5, 6, 7, 3, 4])
    attention = (torch.arange(7)[None] < lengths[:, None]).long()
    x = torch.randint(3, VOCABULARY, (6, 7), generator=generator) * attention
    mask = (torch.rand(6, 7, generator=generator) < 0.4).double() * attention
    mask[:, 0] = 1
    return rr.Batch(
        x=x,
        y=torch.tensor([0, 1, 2, 0, 1, 2]),
        mask=mask,
        group=torch.tensor([0, 0, 1, 1, 2, 2]),
        index=torch.arange(6),
        inputs={"attention_mask": attention},
    ).to(torch.float64)


def text_data(batch=None) -> rr.datasets.InMemory:
    return rr.datasets.InMemory(batch or texts(), rr.datasets.Card(name="texts", text=TEXT))
