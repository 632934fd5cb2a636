// Package detector judges the rollups in event time and keeps the life of alerts.
//
// One round (Engine.Evaluate) rolls up what is new, reads the windows that end at
// the watermark, judges each slice with pure functions, controls false
// discoveries over the slices judged together, moves alerts through pending,
// firing and resolved, stores all of it, and then notifies. Live running, replay
// and back-tests differ only in the clock.
package detector
