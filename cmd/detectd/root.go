package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"driftline/internal/version"
)

// global holds the flags that every subcommand has.
type global struct {
	logLevel  string
	logFormat string
}

func newRoot() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "detectd",
		Short: "Warn minutes before LLM latency becomes errors",
		Long: `detectd reads what driftline's collector components stored in ClickHouse, and alerts
on hidden retries, deadline drift and spreading latency while requests still succeed.`,
		Example: `  detectd demo                              see it work, nothing to set up
  detectd standalone --data ./data          OTLP, storage, detection and UI in one process
  detectd migrate up --clickhouse DSN       prepare your own ClickHouse
  detectd serve --clickhouse DSN            detect on your own ClickHouse`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Version,
		Args:          cobra.NoArgs,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
	})
	root.PersistentFlags().StringVar(&g.logLevel, "log-level", "info", "debug, info, warn or error")
	root.PersistentFlags().StringVar(&g.logFormat, "log-format", "text", "text or json")
	root.AddCommand(
		newStandalone(g),
		newServe(g),
		newMigrate(g),
		newDemo(g),
		newEngine(),
		newVersion(),
	)
	return root
}

// logger writes to standard error, so that standard output is the command's result.
func (g *global) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", g.logLevel)}
	}
	o := &slog.HandlerOptions{Level: level}
	switch g.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format %q: want text or json", g.logFormat)}
}

// outputFlag adds --output.
func outputFlag(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "output", "o", "table", "table or json")
}

func checkOutput(v string) error {
	if v != "table" && v != "json" {
		return usageError{fmt.Errorf("--output %q: want table or json", v)}
	}
	return nil
}
