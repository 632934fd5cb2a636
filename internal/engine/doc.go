// Package engine runs the embedded ClickHouse engine: [Serve] is the engine process, [Start] and [Supervisor] run it as a
// child of another process.
//
// The engine lives in a process of its own because it can abort or outgrow its memory, which must not take the intake of
// telemetry down with it, and because loading it into a process makes the race detector unusable there.
package engine
