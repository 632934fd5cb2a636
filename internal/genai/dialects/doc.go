// Package dialects holds what driftline knows of how instrumentations write GenAI spans,
// as data: one YAML document per dialect, embedded, and the strict loader that reads
// them and the documents that a user adds. It knows words only; package genai gives
// them their effect.
//
// A document has these parts, all optional but the name:
//   - attributes: which key states which fact, in which unit, and which key wins when
//     several state one fact (the lowest precedence);
//   - rules: what a span is, by its name or by the value of an attribute;
//   - events: what a span event says of a stream or of attempts;
//   - recognise: what betrays that a span is written in this dialect;
//   - content: keys that carry what people and models wrote. These are never read.
package dialects

//go:generate go run ./page ../../../docs/dialects.md
