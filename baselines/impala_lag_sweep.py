"""The sweep of the lag from which `impala_lag` took its own."""

from baselines import impala_lag

TARGET = 0.9
NUM_SEEDS = 1
LAGS = 10, 20, 80

VARIANTS = {
    f'{correction}_lag_{lag}': impala_lag.maker(correction, lag)
    for lag in LAGS
    for correction in ('vtrace', 'none')
}
