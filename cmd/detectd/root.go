package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

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
		newCheck(),
		newMigrate(g),
		newErase(g),
		newDemo(g),
		newBacktest(),
		newReplay(g),
		newEngine(),
		newVersion(),
	)
	strict(root)
	return root
}

// strict makes a word too many a mistake with its own exit code, also for commands that
// only group others: cobra would print their help and succeed.
func strict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strict(sub)
	}
	if !c.Runnable() {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	check := c.Args
	if check == nil {
		return // engine reads its own arguments
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil {
			return nil
		}
		meant := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			meant = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError{fmt.Errorf("%w%s; see `%s --help`", err, meant, c.CommandPath())}
	}
}

// logger writes to standard error, so that standard output is the command's result.
func (g *global) logger() (*slog.Logger, error) {
	var level slog.Level
	var errs []error
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: want debug, info, warn or error", g.logLevel))
	}
	o := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch g.logFormat {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, o)
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, o)
	default:
		errs = append(errs, fmt.Errorf("--log-format %q: want text or json", g.logFormat))
	}
	if err := usage(errs...); err != nil {
		return nil, err
	}
	return slog.New(handler), nil
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
