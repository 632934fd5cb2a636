package stats

import "math"

// ErlangC is the probability that a customer has to wait in a queue with Poisson arrivals,
// exponential service and c servers (M/M/c), for a load of a = arrival rate times mean
// service time, in Erlang. It is worked out from Erlang's loss formula,
// B(k) = a B(k-1) / (k + a B(k-1)) and C = B / (1 - (a/c) (1 - B)), which does not overflow
// (Erlang 1917; Gross and Harris, Fundamentals of Queueing Theory, section 2.4). A load of c
// or more is 1: the queue grows without end. c under 1 or a negative load is ErrInvalid.
func ErlangC(c int, a float64) (float64, error) {
	if c < 1 || a < 0 || math.IsNaN(a) || math.IsInf(a, 0) {
		return 0, invalid("Erlang C of %d servers and a load of %v", c, a)
	}
	if a >= float64(c) {
		return 1, nil
	}
	b := 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b / (1 - a/float64(c)*(1-b)), nil
}

// QueueWait is the mean time in queue, in units of the mean service time, with c servers at
// a load of a Erlang, for arrivals and service times whose squared coefficients of variation
// are scvArrival and scvService: the approximation of Allen and Cunneen,
// C(c, a) / (c - a) times the mean of the two (Allen, Probability, Statistics and Queueing
// Theory, 1990, section 5.4.2). It is exact for M/M/c and M/G/1. A load of c or more is
// infinite. Errors are those of [ErlangC]; a negative coefficient is ErrInvalid.
func QueueWait(c int, a, scvArrival, scvService float64) (float64, error) {
	if !(scvArrival >= 0) || !(scvService >= 0) {
		return 0, invalid("squared coefficients of variation %v and %v", scvArrival, scvService)
	}
	p, err := ErlangC(c, a)
	if err != nil {
		return 0, err
	}
	if a >= float64(c) {
		return math.Inf(1), nil
	}
	return p / (float64(c) - a) * (scvArrival + scvService) / 2, nil
}
