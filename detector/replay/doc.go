// Package replay runs the engine over what is stored of the past, in event time, and tells
// what would have alerted. Nothing is stored and nothing is sent.
package replay
