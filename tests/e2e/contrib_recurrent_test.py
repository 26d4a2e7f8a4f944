"""Operators of com.microsoft that hybrid language models have in place of attention: against onnxruntime where it has
them, and against NumPy."""
import numpy as np
import pytest
from contrib_test import agree, by_hand, model_of, onnx, rand

RULES = ['linear', 'gated', 'delta', 'gated_delta']
BATCH, KEY, VALUE = 2, 4, 5


def linear_operands(rule, steps, heads, kv_heads, key_heads, by_key=False, shared=False, state=False):
    decay = -rand(BATCH, steps, kv_heads * (KEY if by_key else 1), seed=4, low=0.0, high=2.0) if 'gated' in rule else None
    beta = rand(BATCH, steps, 1 if shared else kv_heads, seed=5, low=0.0) if 'delta' in rule else None
    return [rand(BATCH, steps, heads * KEY), rand(BATCH, steps, key_heads * KEY, seed=1), rand(BATCH, steps, kv_heads * VALUE, seed=2),
            rand(BATCH, kv_heads, KEY, VALUE, seed=3) if state else None, decay, beta]


def linear_attention(rule, heads, kv_heads, q, k, v, past, decay, beta, scale=0.5):
    """Outputs and the states after each step, in float64."""
    steps, key_heads = q.shape[1], k.shape[2] // KEY
    q, k, v = (np.float64(x).reshape(BATCH, steps, -1, size) for x, size in ((q, KEY), (k, KEY), (v, VALUE)))
    k = np.repeat(k, kv_heads // key_heads, 2)
    q, group = (np.repeat(q, kv_heads // heads, 2), 1) if heads < kv_heads else (q, heads // kv_heads)
    state = np.zeros((BATCH, kv_heads, KEY, VALUE)) if past is None else np.float64(past)
    outputs, states = [], []
    for t in range(steps):
        if decay is not None:
            state = state * np.exp(np.float64(decay[:, t])).reshape(BATCH, kv_heads, -1, 1)
        value = v[:, t]
        if beta is not None:
            value = np.float64(beta[:, t])[..., None] * (value - np.einsum('bhd,bhde->bhe', k[:, t], state))
        state = state + k[:, t, :, :, None] * value[:, :, None]
        outputs.append(scale * np.einsum('bgd,bgde->bge', q[:, t], np.repeat(state, group, 1)).reshape(BATCH, -1))
        states.append(state)
    return np.stack(outputs, 1), states


@pytest.mark.parametrize('rule', RULES)
@pytest.mark.parametrize('heads, kv_heads, key_heads', [(2, 2, 2), (4, 2, 2), (2, 4, 2), (2, 4, 1)])
def test_linear_attention(weft, rule, heads, kv_heads, key_heads):
    for steps, by_key, shared, state in ((5, False, False, False), (3, True, True, True), (1, False, True, True)):
        operands = linear_operands(rule, steps, heads, kv_heads, key_heads, by_key, shared, state)
        counts = {'q_num_heads': heads, 'kv_num_heads': kv_heads, 'update_rule': rule}
        agree(weft, 'LinearAttention', operands, [np.float32] * 2, **counts)
        y, states = linear_attention(rule, heads, kv_heads, *operands)
        by_hand(weft, 'LinearAttention', operands, [y, states[-1]], scale=0.5, chunk_size=16, **counts)


def test_gates_that_a_rule_has_no_use_for(weft):
    operands = linear_operands('gated_delta', 3, 2, 2, 2)
    agree(weft, 'LinearAttention', operands, [np.float32] * 2, q_num_heads=2, kv_num_heads=2, update_rule='linear')


@pytest.mark.parametrize('steps, window', [(1, 1), (2, 4), (5, 3)])
def test_states_of_the_last_steps(weft, steps, window):
    operands = linear_operands('gated_delta', steps, 2, 4, 2, state=True)
    y, states = linear_attention('gated_delta', 2, 4, *operands)
    present = [np.zeros_like(states[0])] * (window - steps) + states[-window:]
    operands[3] = np.stack([np.full_like(operands[3], 9)] * (window - 1) + [operands[3]])
    by_hand(weft, 'LinearAttention', operands, [y, np.stack(present)], q_num_heads=2, kv_num_heads=4, scale=0.5,
            state_window=window)


def test_gates_of_linear_attention(weft):
    a, b = rand(2, 3, 4, low=-30.0, high=30.0), rand(2, 3, 4, seed=1)
    operands = [a, rand(4, seed=2), -rand(4, seed=3, low=0.1), b]
    agree(weft, 'LinearAttentionGate', operands, [np.float32] * 2)
    agree(weft, 'LinearAttentionGate', operands[:3])
    by_hand(weft, 'LinearAttentionGate', operands, [operands[2] * np.logaddexp(0, np.float64(a) + operands[1]),
                                                    1 / (1 + np.exp(-np.float64(b)))])


def causal_conv(x, w, bias, past, dilation=1, silu=False):
    """The output, and the past followed by x, in float64."""
    taps, length = w.shape[2], x.shape[2]
    kept = (taps - 1) * dilation
    before = np.zeros((*x.shape[:2], kept)) if past is None else past
    whole = np.concatenate([before, x], 2).astype(np.float64)
    y = sum(whole[:, :, r * dilation:r * dilation + length] * w[:, 0, r, None] for r in range(taps))
    y = y + (0 if bias is None else bias[:, None])
    return (y / (1 + np.exp(-y)) if silu else y), whole


@pytest.mark.parametrize('last', [0, 1])
@pytest.mark.parametrize('dilation, taps, length', [(1, 4, 5), (1, 3, 1), (2, 3, 5), (3, 4, 1), (1, 1, 3), (2, 1, 3)])
def test_causal_convolutions(weft, dilation, taps, length, last):
    def laid(x):
        return np.ascontiguousarray(x.transpose(0, 2, 1)) if last and x is not None else x
    x, w, kept = rand(2, 6, length), rand(6, 1, taps), (taps - 1) * dilation
    for activation, bias, past in (('none', None, None), ('silu', rand(6), rand(2, 6, kept, seed=2) if kept else None)):
        options = {'activation': activation, 'dilation': dilation, 'channels_last': last}
        operands = [laid(x), w, bias, laid(past)]
        y, whole = causal_conv(x, w, bias, past, dilation, activation == 'silu')
        by_hand(weft, 'CausalConvWithState', operands, [laid(y), laid(whole[:, :, -kept:])] if kept else [laid(y)], **options)
        if kept:
            agree(weft, 'CausalConvWithState', operands, [np.float32] * 2, **options)


def test_channels_that_are_several_last_axes(weft):
    x, w, past = rand(2, 5, 3, 4), rand(12, 1, 3), rand(2, 2, 3, 4, seed=1)
    agree(weft, 'CausalConvWithState', [x, w, rand(12), past], [np.float32] * 2, channels_last=1, activation='swish')
    agree(weft, 'CausalConvWithState', [x, w, None, rand(2, 4, 3, 4)], [np.float32] * 2, channels_last=1, dilation=2)


@pytest.mark.parametrize('last', [0, 1])
@pytest.mark.parametrize('length, window', [(1, 1), (2, 4), (5, 3)])
def test_states_of_a_convolution_after_the_last_steps(weft, length, window, last):
    def laid(x):
        return x.swapaxes(-1, -2).copy() if last else x
    x, w, past = rand(2, 6, length), rand(6, 1, 3), rand(2, 6, 2, seed=2)
    y, whole = causal_conv(x, w, None, past)
    ends = [whole.shape[2] - window + 1 + j for j in range(window)]
    present = [whole[:, :, end - 2:end] if end > 2 else np.zeros((2, 6, 2)) for end in ends]
    pasts = np.stack([np.full_like(past, 9)] * (window - 1) + [past])
    by_hand(weft, 'CausalConvWithState', [laid(x), w, None, laid(pasts)], [laid(y), laid(np.stack(present))], state_window=window,
            channels_last=last)


@pytest.mark.parametrize('op, change, says', [
    ('LinearAttention', {'state_window': 9}, 'state_window is 9'), ('LinearAttention', {'update_rule': 'hebbian'}, 'update_rule'),
    ('LinearAttention', {'kv_num_heads': 3}, 'heads can'), ('LinearAttention', {'scale': 1}, '"scale" is an integer'),
    ('LinearAttention', {5: None}, 'needs a beta'), ('LinearAttention', {0: rand(2, 8)}, 'input 0 is of rank 2'),
    ('LinearAttention', {1: np.int32([[[1]]])}, 'input 1 (key) is i32'), ('LinearAttention', {'window': 2}, 'unknown attribute "window"'),
    ('CausalConvWithState', {'ndim': 2}, 'several dimensions'), ('CausalConvWithState', {'dilation': 0}, 'dilation is 0'),
    ('CausalConvWithState', {'activation': 'relu', 'dilation': 2}, 'activation is "relu"'),
    ('CausalConvWithState', {'activation': 'relu'}, '"activation"'), ('CausalConvWithState', {0: rand(2, 6)}, 'is of rank 2'),
    ('CausalConvWithState', {1: np.float64([[[1]]])}, 'input 1 (weight) is f64'),
    ('LinearAttentionGate', {3: None}, 'needs input 3')])
def test_recurrences_that_are_refused(weft, op, change, says):
    operands = {'LinearAttention': linear_operands('gated_delta', 3, 2, 2, 2), 'CausalConvWithState': [rand(2, 6, 5), rand(6, 1, 3)],
                'LinearAttentionGate': [rand(2, 3, 4), rand(4), rand(4), rand(2, 3, 4)]}[op]
    attributes = {'q_num_heads': 2, 'kv_num_heads': 2} if op == 'LinearAttention' else {}
    for at, value in change.items():
        if isinstance(at, int):
            operands[at] = value
        else:
            attributes[at] = value
    model, _ = model_of(op, operands, [np.float32] * 2, (), attributes)
    onnx.save(model, weft.folder / 'model.onnx')
    told = weft('check', 'model.onnx', code=(3, 4)) + weft.said
    assert says in told and '"it"' in told, told
