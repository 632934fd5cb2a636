// Package backtest scores the detector against incidents whose truth is known. It draws
// scenarios from a seed, plays each through package traffic into a store in memory, and drives
// the engine that runs live over it, round by round in event time. What it found is compared
// with two rivals on the same data and with an oracle that knows the parameters.
package backtest
