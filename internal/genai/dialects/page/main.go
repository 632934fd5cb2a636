// Command page writes docs/dialects.md from the documents of the dialects and the table of
// error classes, so that the page says what the program does.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: page <docs/dialects.md>")
		os.Exit(2)
	}
	text, err := page()
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}
