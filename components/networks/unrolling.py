"""The unroll of a long short-term memory, and its gradient, written for speed.

Lanes are columns, [4 H, N]: gates are then parted without a copy where lanes are a
multiple of 16, and products of more units than lanes take up to half of the time of
[N, 4 H]. The projection of the inputs is one product for all steps, and so are the
gradients of the weights: only what must wait for another step is in the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Body = Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor]], Sequence[tf.Tensor]]


def forward(raw, cell):
    """Returns h, c, the three gates [3 H, N] and the candidate."""
    size = cell.shape[0]
    gates, candidate = tf.split(raw, [3 * size, size])
    gates, candidate = tf.sigmoid(gates), tf.tanh(candidate)
    into, keep, out = tf.split(gates, 3)
    cell = keep * cell + into * candidate
    return out * tf.tanh(cell), cell, gates, candidate


def unroll(inputs, weights, state, initial, reset, static):
    """Returns outputs [T, N, H] and the last hidden and cell states [N, H]."""
    if not static:  # All steps of a loop are alike.
        later = tf.shape(inputs)[0] - tf.shape(reset)[0]
        reset = tf.pad(reset, [[0, later], [0, 0]])
    # 0 at the resets; absent, it is no operand. Products, as a selection costs thrice,
    # of whole states, as a broadcast in each step costs a tenth more.
    live: tuple[tf.Tensor, ...] = ()  # [R, H, N]
    if reset.shape[0] != 0:
        wide = tf.tile(reset[:, tf.newaxis], [1, weights[1].shape[1], 1])
        live = (1.0 - tf.cast(wide, inputs.dtype),)

    @tf.custom_gradient
    def run(inputs, w_x, w_h, b, *states):
        hidden, cell, *firsts = (tf.transpose(x) for x in states)  # [H, N]
        # 0 but at the resets, [R, H, N].
        initial = [(1.0 - x) * first for x in live for first in firsts]

        def body(carry, now):
            projected, *resets = now
            hidden, cell = carry[:2]
            if resets:
                live, *anew = resets
                hidden, cell = live * hidden, live * cell
                if anew:
                    hidden, cell = hidden + anew[0], cell + anew[1]
            return forward(projected + tf.matmul(w_h, hidden), cell)

        gates = tf.tile(tf.zeros_like(hidden), [3, 1])
        start = (hidden, cell, gates, tf.zeros_like(hidden))
        hiddens, cells, gates, candidate = _scan(
            body, (_project(inputs, w_x, b, static), *live, *initial), start, static
        )

        def gradient(d_outputs, d_hidden, d_cell):
            before = [
                tf.concat([first[tf.newaxis], x[:-1]], axis=0)
                for first, x in ((hidden, hiddens), (cell, cells))
            ]
            if live:
                before = [
                    _reset(live[0], x, *initial[i : i + 1])
                    for i, x in enumerate(before)
                ]
            back = _transposed(w_h)  # [H, 4 H]
            d_raw, d_cells, live_keep = _backward(
                (_turned(d_outputs), tf.transpose(d_hidden), tf.transpose(d_cell)),
                (before[1], cells, gates, candidate),
                live,
                back,
                static,
            )
            d_states = _state_gradients(live, d_raw, d_cells, (gates, live_keep), back)
            d_states = d_states[: len(states)]
            return *_input_gradients(inputs, before[0], w_x, d_raw), *d_states

        last = tf.transpose(hiddens[-1]), tf.transpose(cells[-1])
        return (_turned(hiddens), *last), gradient

    return run(inputs, *weights, *state, *initial)


def _project(inputs, w_x, b, static):
    """Returns what the inputs [T, N, F] add to the raw gates, [T, 4 H, N].

    If `static`, as a list: to part the steps takes half of the time of a transpose.
    """
    rows = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [T N, F]
    projected = tf.matmul(w_x, _transposed(rows)) + b[:, tf.newaxis]
    shape = tf.concat([b.shape, tf.shape(inputs)[:2]], axis=0)
    projected = tf.reshape(projected, shape)
    projected.set_shape([b.shape[0], *inputs.shape[:2]])
    if static:
        return tf.unstack(projected, axis=1)
    return tf.transpose(projected, [1, 0, 2])


def _turned(steps):
    """Returns [T, N, F] of [T, F, N], and the reverse."""
    return tf.transpose(steps, [0, 2, 1])


def _input_gradients(inputs, hidden_before, w_x, d_raw):
    """Returns those of the inputs, w_x, w_h and b; hidden_before is [T, H, N]."""
    flat = tf.reshape(d_raw, [d_raw.shape[0], -1])  # [4 H, T N]
    d_inputs = tf.matmul(_transposed(w_x), flat)
    rows = [tf.reshape(x, [-1, x.shape[2]]) for x in (inputs, _turned(hidden_before))]
    return (
        tf.reshape(tf.transpose(d_inputs), tf.shape(inputs)),
        *(tf.matmul(flat, x) for x in rows),
        tf.reduce_sum(flat, axis=1),
    )


def _state_gradients(live, d_raw, d_cells, keeps, back):
    """Returns those of the first state and of the initial one, [N, H] each.

    The latter flow from the reset steps.
    """
    gates, live_keep = keeps
    _, keep, _ = tf.split(gates, 3, axis=1)
    at_start, d_initial = d_raw[:, 0], [tf.zeros_like(d_cells[0])] * 2
    for x in live:
        steps, resets = tf.shape(x)[0], 1.0 - x[:, :1]
        at_start *= x[0, :1]
        at_resets = d_raw[:, :steps] * tf.transpose(resets, [1, 0, 2])
        d_initial = [
            tf.matmul(back, tf.reduce_sum(at_resets, axis=1)),
            tf.reduce_sum(resets * (keep * d_cells)[:steps], axis=0),
        ]
    d_start = tf.matmul(back, at_start), live_keep[0] * d_cells[0]
    return [tf.transpose(x) for x in (*d_start, *d_initial)]


def _reset(live, states, initial=None):
    """Returns the states [T, H, N], at the resets of the first R steps the initial.

    `initial` is 0 but at the resets, and None where it is 0 there too.
    """
    steps = tf.shape(live)[0]
    first = live * states[:steps]
    if initial is not None:
        first += initial
    return tf.concat([first, states[steps:]], axis=0)


def _transposed(matrix):
    """Returns the transpose, in memory.

    A product with a transposed operand takes 1.1 to 10 times as long as with a plain
    one; by way of rank 3 it escapes the optimizer, which would fold it in again.
    """
    return tf.transpose(matrix[tf.newaxis], [0, 2, 1])[0]


def _backward(d_results, kept, live, back, static):
    """Returns the gradients of the raw gates [4 H, T, N] and cells [T, H, N].

    And the forget gates, 0 where a lane was reset: the factor from a cell's gradient
    to that of the cell before. `back` is w_h, transposed. All that does not wait for a
    later step's gradient is computed for all steps at once.
    """
    d_outputs, d_hidden, d_cell = d_results
    cell_before, cells, gates, candidate = kept
    into, keep, out = tf.split(gates, 3, axis=1)
    squashed = tf.tanh(cells)
    to_cell = out * (1.0 - tf.square(squashed))  # of d_hidden
    slopes = gates * (1.0 - gates)
    others = tf.concat([candidate, cell_before, squashed], axis=1)
    to_raw = tf.concat([slopes * others, into * (1.0 - tf.square(candidate))], axis=1)
    live_keep = keep
    for x in live:
        steps = tf.shape(x)[0]
        live_keep = tf.concat([x * keep[:steps], keep[steps:]], axis=0)
    next_keep = tf.concat([live_keep[1:], tf.ones_like(live_keep[:1])], axis=0)

    def body(carry, now):
        d_hidden, d_cell, _ = carry
        d_output, to_cell, to_raw, next_keep, *live = now
        d_hidden += d_output
        d_cell = next_keep * d_cell + to_cell * d_hidden
        d_raw = to_raw * tf.concat([d_cell, d_cell, d_hidden, d_cell], axis=0)
        d_hidden = tf.matmul(back, d_raw)
        return live[0] * d_hidden if live else d_hidden, d_cell, d_raw

    start = (d_hidden, d_cell, tf.tile(d_cell, [4, 1]))
    inputs = (d_outputs, to_cell, to_raw, next_keep, *live)
    _, d_cells, d_raw = _scan(body, inputs, start, static, reverse=True, axes=(0, 0, 1))
    return d_raw, d_cells, live_keep


def _scan(body: Body, inputs, start, static, reverse=False, axes=(0, 0, 0, 0)):
    """Returns what `body` gave at each step, stacked; it takes the step before's.

    Steps are along axis 0 of the inputs, or these are lists of steps, and along these
    axes of the results. Where an input has fewer steps than the first one, later steps
    do without it.
    """
    if not static:
        made = tf.scan(body, inputs, initializer=start, reverse=reverse)
        swapped = [1, 0, 2]
        return tuple(
            tf.transpose(x, swapped) if axes[i] else x for i, x in enumerate(made)
        )
    inputs = [x if isinstance(x, list) else tf.unstack(x) for x in inputs]
    steps = list(range(len(inputs[0])))
    carry, results = start, []
    for t in reversed(steps) if reverse else steps:
        carry = body(carry, [x[t] for x in inputs if t < len(x)])
        results.append(carry)
    if reverse:
        results.reverse()
    return tuple(
        tf.stack([result[i] for result in results], axis) for i, axis in enumerate(axes)
    )
