// Command schemagen writes docs/schema.md from the DDL templates and the comments of
// internal/rows, so that the page cannot drift from either.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schemagen <docs/schema.md>, run in the directory schema")
		os.Exit(2)
	}
	page, err := page("../internal/rows/rows.go")
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}
