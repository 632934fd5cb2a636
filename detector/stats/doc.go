// Package stats holds the pure statistics of the detectors: numbers in,
// numbers out, with no clock, no storage and no randomness.
//
// Conventions that hold everywhere in the package:
//
//   - Latencies are float64 milliseconds. Log scale means natural logarithm of
//     milliseconds.
//   - "Not enough data" is an answer: such calls return an error that wraps
//     [ErrInsufficient]. Unusable arguments return one that wraps [ErrInvalid].
//     No function returns NaN without an error.
//   - The P-quantile of n values is sorted[min(int(n*p), n-1)], counted from 0.
//     The only exception is the median, which is the mean of the two middle
//     values when n is even, so that it has no direction.
//   - Every effect size has an interval. With thousands of requests each
//     p-value is tiny, so callers gate on the effect first.
package stats
