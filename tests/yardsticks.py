"""What infinitely many rows would leave open, and the loss without its noise: for problems whose model is known."""

import numpy as np

from bondic_lab.methods.oracle import slice_of_ball


def infinite_data_interval(gram, operator, rewards, start, *, radius, center=None):
    """Tabular: sup / inf { E[q] : q in Q, E[R^q | x] = 0 at every x that the log can visit }.

    gram (m, m): kernel on all state-action pairs; operator (k, m): rows q -> q(x) - gamma E q(x') for the k visited
    pairs; rewards (k,): their expected rewards; start (m,): d_{pi,0}; center (m,): values of the center.
    """
    middle = np.zeros(gram.shape[0]) if center is None else center
    targets, mixed = rewards - operator @ middle, operator @ gram
    square, offset = float(start @ gram @ start), float(start @ middle)
    return slice_of_ball(mixed @ operator.T, mixed @ start, square, targets, offset, radius)


def noise_width(problem, lowest, highest):
    """Conditional range of R^q(x, y) given x for any q with values in [lowest, highest].

    R^q - Rq = -(r + gamma q(x') - its mean), so the range is at most r_hi - r_lo + gamma (highest - lowest), with 0
    added to the values of q when a transition may end. Then |L_W(q) - L*_W(q)| <= eps for that width, for one q
    fixed beforehand, by the argument of (9). L*_W is the loss with each residual replaced by its conditional mean.
    """
    low, high = problem.terms.reward_range
    if problem.terms.may_terminate or problem.terms.horizon is not None:
        lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    return (high - low) + problem.gamma * (highest - lowest)
