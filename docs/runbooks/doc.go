// Package runbooks holds a page for each detection: what it means, what to look at first,
// and what not to do. The pages' SQL is run against the schema by a test.
package runbooks

import "embed"

// Pages are the Markdown files, named <detection>.md.
//
//go:embed *.md
var Pages embed.FS
