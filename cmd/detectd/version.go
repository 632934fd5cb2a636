package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"driftline/internal/version"
	"driftline/schema"
)

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and the schema version it works with",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{
					"version": version.Version, "schema": schema.Version, "go": runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "detectd %s (schema %d, %s, %s/%s)\n",
				version.Version, schema.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	outputFlag(c, &output)
	return c
}
