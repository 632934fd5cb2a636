// Package standalone wires an all-in-one driftline: the embedded engine as a child
// process, a collector with the two components in this process, and the daemon with
// detections and UI.
package standalone
