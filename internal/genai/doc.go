// Package genai is driftline's domain: it understands how instrumentations write
// GenAI spans, links attempts to operations, and divides a request's wall clock
// into segments. It is pure: no collector, no database, no HTTP, no clock.
//
// Analyze goes through a trace in this order: facts and classes of spans (dialect*.go,
// keys.go), the tree (tree.go), which spans are one call (fold.go), requests
// (request.go), attempts (attempts*.go), what links calls and requests (links.go), deadlines (deadline.go), the first token
// (ttft.go), each operation's own division (segments.go), the critical path (path.go),
// and rows (emit*.go).
//
// Decisions that rows alone do not show:
//   - A failed try is hidden time when another one followed. The last try's failure is
//     the planner's to see: it is divided like any other call and is not hidden.
//   - Plain spans without operations below them own no time; it belongs to the
//     operation, agent or request around them.
//   - A request that ends after its deadline drifts by the overrun, even where nobody
//     was told what remained; then perceived remaining time stays unknown.
//   - A request's hidden time sums over the operations that know their attempts;
//     AttemptsUnknown says how many do not. Agent time is derived only when every model
//     call knows.
package genai
