package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"driftline/internal/erase"
	"driftline/internal/identity"
)

// stays is what erasing does not reach.
var stays = []string{
	"rollups: they count and hold no ids; those of the last 13 days follow within minutes, older ones keep their counts",
	"alerts, which may name example traces, until their retention",
	"rows that arrive later: run this again once collectors' queues have drained; late fragments that state nobody, of a trace that is gone, are not found then",
	"backups of ClickHouse, and what senders and other backends of the same spans hold",
}

type eraseFlags struct {
	storage      storage
	user, tenant string
	dryRun       bool
	output       string
}

func newErase(g *global) *cobra.Command {
	f := &eraseFlags{}
	c := &cobra.Command{
		Use:   "erase",
		Short: "Delete what is stored of the requests of one user or tenant",
		Long: `erase finds the requests of a user or tenant by the keyed hash of the id, with the key of the collectors in
` + identity.EnvKey + `, and deletes the rows of their traces in all tables, with all revisions. It returns when that is done.

Of a trace that also has requests of somebody else, only the rows that name one of the requests go; its spans
and snapshots of open requests stay until their retention. It may run beside collectors and detectors, and be
run again at any time. It waits while a migration runs.

What stays:
  - ` + strings.Join(stays, "\n  - "),
		Example: `  ` + identity.EnvKey + `=... detectd erase --tenant acme --dry-run
  detectd erase --user alice@example.org --clickhouse clickhouse://user:password@host:9000/driftline
  detectd erase --user - --cluster main < id.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, g) },
	}
	f.storage.placeFlags(c, "the cluster's name where the tables are on one; empty is one node")
	c.Flags().StringVar(&f.user, "user", "", "the user's id, as spans state it; - reads it from standard input, which keeps it out of the shell's history")
	c.Flags().StringVar(&f.tenant, "tenant", "", "the tenant's id, likewise")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "count the rows and change nothing")
	outputFlag(c, &f.output)
	return c
}

// whom reads the id and hashes it.
func (f *eraseFlags) whom(c *cobra.Command) (kind identity.Kind, hash int64, err error) {
	id := f.user
	switch kind = identity.User; {
	case c.Flags().Changed("user") == c.Flags().Changed("tenant"):
		return "", 0, errors.New("give either --user or --tenant")
	case c.Flags().Changed("tenant"):
		kind, id = identity.Tenant, f.tenant
	}
	hasher, err := identity.New(os.Getenv(identity.EnvKey))
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("the key in %s %w", identity.EnvKey, err)
	case hasher == nil:
		return "", 0, fmt.Errorf("no key: set %s to the identity_key of the collectors that stored the requests", identity.EnvKey)
	}
	if id == "-" {
		text, err := io.ReadAll(io.LimitReader(c.InOrStdin(), identity.MaxValueBytes+64))
		if err != nil {
			return "", 0, fmt.Errorf("read the id from standard input: %w", err)
		}
		id = string(text)
	}
	if id = strings.TrimSpace(id); strings.ContainsAny(id, "\r\n") {
		return "", 0, fmt.Errorf("--%s: one id at a time, and this has several lines", kind)
	}
	hash, ok := hasher.Hash(kind, id)
	if !ok {
		return "", 0, fmt.Errorf("--%s: the id names nobody: it is empty, a word for nothing such as null, or longer than %d bytes, and requests with such an id have no hash", kind, identity.MaxValueBytes)
	}
	return kind, hash, nil
}

func (f *eraseFlags) run(c *cobra.Command, g *global) error {
	target, tables, wrongTarget := f.storage.target()
	kind, hash, wrongID := f.whom(c)
	if err := usage(checkOutput(f.output), wrongTarget, wrongID); err != nil {
		return err
	}
	logger, err := g.logger()
	if err != nil {
		return err
	}
	conn, err := target.Patient(erase.MaxStatement).Open(c.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := erase.Run(c.Context(), conn, erase.Options{Schema: tables, Kind: kind, Hash: hash, DryRun: f.dryRun, Now: time.Now().UTC(), Logger: logger})
	switch {
	case errors.Is(err, erase.ErrCluster):
		return usage(fmt.Errorf("%w: give --cluster as with `detectd migrate up`", err))
	case err != nil && r.Traces > 0 && !f.dryRun:
		return fmt.Errorf("%w; what is done is done, run it again for the rest", err)
	case err != nil:
		return err
	}
	if err := printErased(c.OutOrStdout(), f.output, kind, f.dryRun, r); err != nil {
		return err
	}
	if left := r.Left(); left > 0 && !f.dryRun {
		return fmt.Errorf("%d rows came while others were deleted: run it again", left)
	}
	return nil
}

func printErased(out io.Writer, output string, kind identity.Kind, dryRun bool, r erase.Report) error {
	if output == "json" {
		return json.NewEncoder(out).Encode(struct {
			Kind   identity.Kind `json:"kind"`
			DryRun bool          `json:"dry_run"`
			erase.Report
			Stays []string `json:"stays"`
		}{kind, dryRun, r, stays})
	}
	if r.Traces == 0 {
		fmt.Fprintf(out, "nothing is stored of this %s under this key\n", kind)
		return nil
	}
	done := "erased"
	if dryRun {
		done = "would be erased"
	}
	fmt.Fprintf(out, "%d requests of this %s and %d of nobody, in %d traces, %s\n\n", r.Requests, kind, r.Along, r.Traces, done)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "table\trows\tleft\t\n")
	for _, t := range r.Tables {
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", t.Name, t.Rows, t.Left)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.SharedTraces > 0 {
		fmt.Fprintf(out, "\n%d of the traces also have requests of others. Of these stay, until their retention, the rows that name no request:", r.SharedTraces)
		for i, t := range r.Kept {
			fmt.Fprintf(out, "%s %d of %s", map[bool]string{true: ","}[i > 0], t.Left, t.Name)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "\nWhat stays besides:\n  - %s\n", strings.Join(stays, "\n  - "))
	return nil
}
