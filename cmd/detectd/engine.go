package main

import (
	"os"

	"github.com/spf13/cobra"

	"driftline/internal/engine"
)

func newEngine() *cobra.Command {
	return &cobra.Command{
		Use:   "engine [flags]",
		Short: "Run the embedded ClickHouse engine by itself",
		Long: `engine serves a ClickHouse-compatible HTTP endpoint over one data folder. standalone and
demo start it themselves and restart it when it ends; run it by hand to look into a folder.`,
		Example: `  detectd engine --data-dir ./data/engine --listen 127.0.0.1:8123
  curl 'http://127.0.0.1:8123/?query=SELECT+count()+FROM+driftline.requests'`,
		// The engine is started as a child with flags of its own package.
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if code := engine.Main(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr()); code != 0 {
				os.Exit(code)
			}
			return nil
		},
	}
}
