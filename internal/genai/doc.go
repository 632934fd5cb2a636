// Package genai is driftline's domain: it understands how instrumentations write
// GenAI spans, links attempts to operations, and divides a request's wall clock
// into segments. It is pure: no collector, no database, no HTTP, no clock.
package genai
