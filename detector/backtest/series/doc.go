// Package series runs the detections of P95 over a plain series of latencies, such as a CSV
// file from any monitoring, on the engine that runs live.
package series
