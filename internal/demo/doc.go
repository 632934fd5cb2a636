// Package demo plays a simulated incident through driftline's real parts in event
// time: the processor, the exporter, an embedded engine, the rollup job and the
// detector, all on one manual clock, so that hours pass in seconds.
package demo
