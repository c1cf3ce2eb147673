"""Makes autograd.json: loss and gradients of a tiny student by PyTorch's autograd, in float64.

    pip install numpy torch && python autograd.py > autograd.json

Weights, tokens, labels and teacher distributions follow from formulas that gradient_test.go repeats.
"""
import json, math, torch

torch.set_default_dtype(torch.float64)
E, L, H, F, T, WINDOWS, CLASSES, SHARED = 32, 2, 2, 64, 6, 2, 9, 5
TEMPERATURE, SOFT, EPS, BASE = 2.0, 0.7, 1e-5, 10000.0
D, N = E // H, WINDOWS * T

at = 0


def take(*shape, norm=False):
    global at
    n = math.prod(shape)
    w = torch.tensor([0.15 * math.sin(1.3 * i + 0.5 * math.sin(i)) for i in range(at, at + n)])
    # the product's weights are float32
    w = (w + (1.0 if norm else 0.0)).to(torch.float32).to(torch.float64).reshape(shape)
    at += n
    w.requires_grad_()
    params.append(w)
    return w


params = []
embd = take(CLASSES, E)
blocks = []
for _ in range(L):
    blocks.append(dict(an=take(E, norm=True), q=take(E, E), k=take(E, E), v=take(E, E), o=take(E, E),
                       fn=take(E, norm=True), gate=take(F, E), up=take(F, E), down=take(E, F)))
norm = take(E, norm=True)

tokens = torch.tensor([(i * 5 + i // 3) % CLASSES for i in range(N)]).reshape(WINDOWS, T)
labels = torch.tensor([(i * 7 + 2) % CLASSES for i in range(N)])
teacher = torch.tensor([[math.sin(i * 3.0 + c * 1.7) * 2 for c in range(CLASSES)] for i in range(N)]).softmax(-1)


def rms(x, w):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * w


angle = torch.arange(T)[:, None] * BASE ** (-2 * torch.arange(D // 2) / D)[None]
cos, sin = angle.cos(), angle.sin()


def rope(x):  # [W][H][T][D], neighbouring pairs
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def heads(x):
    return x.reshape(WINDOWS, T, H, D).transpose(1, 2)


x = embd[tokens]
mask = torch.full((T, T), -math.inf).triu(1)
for b in blocks:
    h = rms(x, b["an"])
    q, k, v = rope(heads(h @ b["q"].T)), rope(heads(h @ b["k"].T)), heads(h @ b["v"].T)
    p = (q @ k.transpose(-1, -2) / math.sqrt(D) + mask).softmax(-1)
    x = x + (p @ v).transpose(1, 2).reshape(WINDOWS, T, E) @ b["o"].T
    h = rms(x, b["fn"])
    x = x + (torch.nn.functional.silu(h @ b["gate"].T) * (h @ b["up"].T)) @ b["down"].T
z = (rms(x, norm) @ embd.T).reshape(N, CLASSES)

# The file's model: the last row stands for each of SHARED tokens. Written out over the whole vocabulary, so that the loss is a plain cross-entropy.
full = torch.cat((z[:, :-1], z[:, -1:].expand(N, SHARED)), 1)
p = torch.cat((teacher[:, :-1], teacher[:, -1:].expand(N, SHARED) / SHARED), 1)
soft = -(p * (full / TEMPERATURE).log_softmax(-1)).sum(-1).mean()
hard = torch.nn.functional.cross_entropy(full, labels)
loss = SOFT * TEMPERATURE**2 * soft + (1 - SOFT) * hard
loss.backward()
gradient = torch.cat([w.grad.flatten() for w in params])
print(json.dumps(dict(soft=soft.item(), hard=hard.item(), logits=[round(v, 7) for v in z.flatten().tolist()],
                      gradient=[float("%.6g" % v) for v in gradient.tolist()])))
