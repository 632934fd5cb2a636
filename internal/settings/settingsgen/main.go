// Command settingsgen writes docs/configuration.md from the detector's settings, their
// comments and their defaults.
package main

import (
	"fmt"
	"os"

	"driftline/internal/settings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: settingsgen <docs/configuration.md>, run in the directory internal/settings")
		os.Exit(2)
	}
	page, err := settings.Page("../../detector")
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "settingsgen:", err)
		os.Exit(1)
	}
}
