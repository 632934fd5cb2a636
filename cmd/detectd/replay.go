package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"driftline/detector"
	"driftline/detector/replay"
	"driftline/detector/store"
	"driftline/internal/chconn"
	"driftline/internal/settings"
	"driftline/schema"
)

type replayFlags struct {
	storage                         storage
	config, output, from, to, speed string
}

func newReplay(g *global) *cobra.Command {
	f := &replayFlags{}
	c := &cobra.Command{
		Use:   "replay",
		Short: "Tell what would have alerted in a stretch of the past",
		Long: `replay runs the engine in event time over the rollups that are stored, with the settings of
--config, and prints what would have fired and resolved. Nothing is stored and nothing is sent, so it
may run beside a live detectd, also to try settings out. Shadow alerts are marked.

Late rows are in the stored minutes from the start, so a replay may see a little more than the live
engine saw. Rollups of a minute are kept for 14 days, and a baseline needs the day before --from.`,
		Example: `  detectd replay --from 2026-03-02T10:00:00Z --to 2026-03-02T12:00:00Z --clickhouse http://127.0.0.1:8123/driftline
  detectd replay --from 6h --to 0s --config tuned.yaml --output json
  detectd replay --from 1h --to 30m --speed 60`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c.Context(), g, c.OutOrStdout(), c.ErrOrStderr(), time.Now().UTC())
		},
	}
	f.storage.flags(c)
	fs := c.Flags()
	fs.StringVar(&f.from, "from", "", "time of the first round: RFC 3339, or how long ago, such as 6h")
	fs.StringVar(&f.to, "to", "0s", "time of the last round, likewise")
	fs.StringVar(&f.speed, "speed", "max", "how many times faster than life, or max")
	fs.StringVar(&f.config, "config", "", "YAML file with the settings of detection; the defaults without it")
	outputFlag(c, &f.output)
	return c
}

// instantOf reads RFC 3339, or a duration before now.
func instantOf(flag, v string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t.UTC(), nil
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%s %q: want a time such as 2026-03-02T10:00:00Z, or how long ago, such as 6h", flag, v)
}

func (f *replayFlags) options(now time.Time) (replay.Options, chconn.Target, schema.Options, error) {
	var o replay.Options
	var err, wrongFrom, wrongTo, wrongSpeed error
	o.From, wrongFrom = instantOf("--from", f.from, now)
	o.To, wrongTo = instantOf("--to", f.to, now)
	if f.speed != "max" {
		if o.Speed, err = strconv.ParseFloat(f.speed, 64); err != nil || !(o.Speed > 0) || math.IsInf(o.Speed, 0) {
			wrongSpeed = fmt.Errorf("--speed %q: want a number above 0, or max", f.speed)
		}
	}
	target, tables, wrongTarget := f.storage.target()
	if err := usage(checkOutput(f.output), wrongFrom, wrongTo, wrongSpeed, wrongTarget); err != nil {
		return o, target, tables, err
	}
	if o.Config, err = settings.Load(f.config); err != nil {
		return o, target, tables, err
	}
	return o, target, tables, usage(o.Validate())
}

func (f *replayFlags) run(ctx context.Context, g *global, stdout, stderr io.Writer, now time.Time) error {
	o, target, tables, err := f.options(now)
	if err != nil {
		return err
	}
	if g.logLevel == "info" {
		g.logLevel = "warn" // the alerts are the result, not the log
	}
	if o.Logger, err = g.logger(); err != nil {
		return err
	}
	conn, err := target.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := schema.Check(ctx, conn, tables); err != nil {
		return err
	}
	st, err := store.New(conn, target.Database())
	if err != nil {
		return err
	}
	var failed error
	o.Transition = func(a detector.Alert) { failed = errors.Join(failed, printReplayed(stdout, f.output, a)) }
	hour := o.From.Truncate(time.Hour)
	o.Round = func(now time.Time, _ detector.Round) {
		if h := now.Truncate(time.Hour); h.After(hour) {
			hour = h
			fmt.Fprintf(stderr, "replayed to %s\n", h.Format(time.RFC3339))
		}
	}
	stats, err := replay.Run(ctx, o, st)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d rounds from %s to %s, %d verdicts: %d alerts would have been sent, %d more were in shadow\n",
		stats.Rounds, o.From.Format(time.RFC3339), o.To.Format(time.RFC3339), stats.Verdicts, stats.Fired, stats.Shadow)
	if stats.Verdicts == 0 {
		return errors.New("nothing was judged: there is no traffic stored for this time, or no baseline; a baseline needs at least half an hour before the windows")
	}
	return nil
}

func printReplayed(w io.Writer, output string, a detector.Alert) error {
	if output == "json" {
		return json.NewEncoder(w).Encode(a)
	}
	state := a.State
	if a.State == detector.Firing {
		state = a.Severity
	}
	if a.Shadow {
		state += " (shadow)"
	}
	_, err := fmt.Fprintf(w, "%s  %-18s %-20s %s\n", a.At.UTC().Format(time.RFC3339), state, a.Detection, a.Annotations["summary"])
	if err == nil && a.State == detector.Firing {
		_, err = fmt.Fprintf(w, "    %s\n", a.Annotations["description"])
	}
	return err
}
