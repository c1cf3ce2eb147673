"""Makes ranker.json: loss and gradients of a tiny ranking student by PyTorch's autograd, in float64.

    pip install numpy torch && python ranker.py > ranker.json

Numbers follow from formulas that ranker_test.go repeats.
"""
import json, math, torch

torch.set_default_dtype(torch.float64)
DIM, RANK, TEMPERATURE = 6, 2, 2.0


def wave(i, n, phase):
    return torch.tensor([math.sin(i * 1.9 + j * 0.7 + phase) for j in range(n)]).to(torch.float32).to(torch.float64)


weights = torch.tensor([3.0, 0.5, -1.0, 2.0], requires_grad=True)
up = wave(1, DIM * RANK, 0.2).reshape(DIM, RANK).requires_grad_()
down = wave(2, DIM * RANK, 0.4).reshape(RANK, DIM).requires_grad_()
loss = 0
for i in range(3):
    q = wave(i, DIM, 1)
    u = q + up @ (down @ q)
    scores, teacher = [], []
    for c in range(4):
        f = wave(10 * i + c, 4, 2)
        f = torch.cat((((u / u.norm()) @ wave(10 * i + c, DIM, 3)).reshape(1), f[1:]))
        scores.append(weights @ f)
        teacher.append(4 * math.sin(10 * i + c))
    p = (torch.tensor(teacher) / TEMPERATURE).softmax(-1)
    loss = loss + torch.nn.functional.kl_div(torch.stack(scores).log_softmax(-1), p, reduction="sum") / 3
loss.backward()
print(json.dumps(dict(loss=loss.item(), weights=weights.grad.tolist(), up=up.grad.flatten().tolist(), down=down.grad.flatten().tolist())))
