"""Generates tokens with a cache, then without one; prints what it made, and what a model looks like by then."""

import pickle

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 8)
        self.head = torch.nn.Linear(8, 50)

    def forward(self, ids=None, state=None):
        state = self.embedding(ids).sum(1) + (0 if state is None else state)
        return self.head(state).argmax(-1, keepdim=True), state


@torch.no_grad()
def with_cache(model, prompt, tokens):
    made, state = model(ids=prompt)
    for _ in range(tokens):
        made, state = model(ids=made, state=state)
    return made


@torch.inference_mode()
def without_cache(model, ids, tokens):
    for _ in range(tokens):
        ids = torch.cat((ids, model(ids)[0]), 1)
    return ids[:, -1:]


def main():
    torch.manual_seed(0)
    model = Model().eval()
    prompts = torch.randint(0, 50, (3, 7))
    for request in range(4):
        torch.set_num_threads(1 + request % 2)
        print(with_cache(model, prompts, 5).tolist())
    for _ in range(2):
        print(without_cache(model, prompts, 6).tolist())
    print(len(model._forward_pre_hooks), len(pickle.loads(pickle.dumps(model)).state_dict()))
    with torch.no_grad():
        model(torch.zeros(1, 1, dtype=torch.long))  # no loop


if __name__ == "__main__":
    main()
