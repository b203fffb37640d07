"""A model in the manner of Hugging Face: configurations, outputs as dataclasses, masks that are added, tied heads."""

import math
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Optional, Tuple

import numpy as np
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import CrossEntropyLoss

rng = np.random.RandomState(0)


class Config:
    def __init__(self, **kwargs):
        self.vocab_size = kwargs.pop("vocab_size", 17)
        self.hidden_size = kwargs.pop("hidden_size", 12)
        self.num_hidden_layers = kwargs.pop("num_hidden_layers", 2)
        self.num_attention_heads = kwargs.pop("num_attention_heads", 3)
        self.layer_norm_eps = 1e-12
        self.initializer_range = 0.02


@dataclass
class MaskedLMOutput(OrderedDict):
    loss: Optional[torch.FloatTensor] = None
    logits: torch.FloatTensor = None
    hidden_states: Optional[Tuple[torch.FloatTensor]] = None

    def __post_init__(self):
        for field in fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.head_size = int(config.hidden_size / config.num_attention_heads)
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.head_size)
        return x.view(*new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask: Optional[torch.FloatTensor] = None):
        query, key, value = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        context = torch.matmul(nn.functional.softmax(scores, dim=-1), value)
        context = context.permute(0, 2, 1, 3).contiguous()
        return context.view(context.size()[:-2] + (-1,))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = SelfAttention(config)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.act = nn.GELU()

    def forward(self, hidden_states, attention_mask):
        hidden_states = self.norm(hidden_states + self.attention(hidden_states, attention_mask))
        return hidden_states + self.act(self.dense(hidden_states))


class PreTrainedModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.copy_(torch.from_numpy(rng.normal(0, 0.2, module.weight.shape)))
        elif isinstance(module, nn.LayerNorm):
            module.bias.data.zero_()
            module.weight.data.fill_(1.0)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def get_extended_attention_mask(self, attention_mask):
        extended = attention_mask[:, None, None, :].to(dtype=self.dtype)
        return (1.0 - extended) * torch.finfo(self.dtype).min


class ForMaskedLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.register_buffer("position_ids", torch.arange(16).expand((1, -1)), persistent=False)
        self.positions = nn.Embedding(16, config.hidden_size)
        self.layer = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.apply(self._init_weights)
        self.decoder.weight = self.embeddings.weight

    def forward(self, input_ids: torch.LongTensor, attention_mask=None, labels=None) -> MaskedLMOutput:
        batch_size, seq_length = input_ids.size()
        if attention_mask is None:
            attention_mask = torch.ones((batch_size, seq_length), device=self.device)
        hidden = self.embeddings(input_ids) + self.positions(self.position_ids[:, :seq_length])
        mask = self.get_extended_attention_mask(attention_mask)
        all_hidden = ()
        for i, layer_module in enumerate(self.layer):
            all_hidden = all_hidden + (hidden,)
            if i == 0 and self.training:
                hidden = torch.utils.checkpoint.checkpoint(layer_module, hidden, mask, use_reentrant=False)
            else:
                hidden = layer_module(hidden, mask)
        logits = self.decoder(hidden)
        loss = None
        if labels is not None:
            loss = CrossEntropyLoss()(logits.view(-1, self.config.vocab_size), labels.view(-1))
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=all_hidden)


model = ForMaskedLM(Config(vocab_size=17))
no_decay = ["bias", "norm.weight"]
groups = [
    {"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-2, eps=1e-8)
for step in range(4):
    input_ids = torch.tensor(rng.randint(1, 17, (2, 6)))
    attention_mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    labels = input_ids.clone()
    labels[~(torch.tensor(rng.rand(2, 6)) < 0.5)] = -100
    labels[0, 0] = input_ids[0, 0]
    outputs = model(input_ids, attention_mask=attention_mask, labels=labels)
    outputs.loss.backward()
    optimizer.step()
    model.zero_grad()
    print("loss", outputs["loss"].item(), len(outputs.hidden_states))
