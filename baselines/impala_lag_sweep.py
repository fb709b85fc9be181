"""The sweep of the lag from which `impala_lag` took its own; run with `--seeds 0`."""

from baselines import impala_lag

TARGET = 0.9
LAGS = 10, 20, 80

VARIANTS = {
    f'{correction}_lag_{lag}': impala_lag.maker(correction, lag)
    for lag in LAGS
    for correction in ('vtrace', 'none')
}
