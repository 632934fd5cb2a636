// Command enginemain is the engine process alone, for tests of packages that need a real engine: the product's own is
// `detectd engine`.
package main

import (
	"context"
	"os"

	"driftline/internal/engine"
)

func main() {
	os.Exit(engine.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
