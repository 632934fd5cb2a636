// Package sim plays LLM agents in event time and writes the OTLP spans that their
// instrumentations would export, together with the ground truth of what was wrong.
//
// A Sim is a pure function of its Config: the same seed gives the same bytes,
// however the caller steps time, and two scenarios of one seed are identical until
// the fault begins. Nothing reads a clock and nothing sleeps. Spans carry names,
// sizes and times, never prompts or completions.
package sim
