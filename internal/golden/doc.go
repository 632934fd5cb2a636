// Package golden holds the contract's round trip: spans go through the real processor,
// the real exporter, a real engine and the real rollup job on a manual clock, and what
// comes out is compared with committed files and with values worked out by hand.
//
// The package has tests only. In its golden files (testdata) each instant is written as
// seconds after the scenario's start ("T+8.6"), and what is absent is unknown or the
// zero value, as docs/attributes.md has it. `go test ./internal/golden -update` rewrites
// the files; read the difference before you commit it, since these files are the
// contract that other programs read.
package golden
