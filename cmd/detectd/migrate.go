package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"driftline/internal/chconn"
	"driftline/internal/version"
	"driftline/schema"
)

// storage holds the flags that say where the tables are and what they look like.
type storage struct {
	dsn     string
	cluster string
	ttl     map[string]string
}

func (s *storage) flags(c *cobra.Command) {
	s.placeFlags(c, "cluster name, for Replicated and Distributed tables; empty is one node")
	c.PersistentFlags().StringToStringVar(&s.ttl, "ttl-days", nil, "retention in days by key, such as requests=60,spans=3; keys: "+strings.Join(schema.TTLKeys(), ", "))
}

// placeFlags are those that say where the tables are.
func (s *storage) placeFlags(c *cobra.Command, cluster string) {
	c.PersistentFlags().StringVar(&s.dsn, "clickhouse", os.Getenv(chconn.EnvDSN), "ClickHouse DSN; default from "+chconn.EnvDSN)
	// The environment's value may hold a password, which --help must not show.
	c.PersistentFlags().Lookup("clickhouse").DefValue = ""
	c.PersistentFlags().StringVar(&s.cluster, "cluster", "", cluster)
}

func (s *storage) target() (chconn.Target, schema.Options, error) {
	var errs []error
	target, err := chconn.Parse(s.dsn, schema.DefaultDatabase)
	database := schema.DefaultDatabase
	if err != nil {
		errs = append(errs, err)
	} else {
		database = target.Database()
	}
	ttl := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(s.ttl)) {
		days, err := strconv.Atoi(s.ttl[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("--ttl-days %s=%s: want a whole number of days", key, s.ttl[key]))
			continue
		}
		ttl[key] = days
	}
	host, _ := os.Hostname()
	o := schema.Options{
		Database: database, Cluster: s.cluster, TTLDays: ttl,
		AppliedBy: "detectd " + version.Version + " on " + host,
	}
	errs = append(errs, o.Validate())
	return target, o, usage(errs...)
}

func newMigrate(g *global) *cobra.Command {
	s := &storage{}
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Prepare and inspect driftline's tables in ClickHouse",
		Long: `Only migrate and standalone change the schema; collectors and detectors check it, and wait
or refuse. up is safe to run at any time, also from several places at once.`,
		Example: `  detectd migrate up --clickhouse clickhouse://user:password@host:9000/driftline
  detectd migrate status
  detectd migrate dry-run --cluster main > schema.sql`,
		Args: cobra.NoArgs,
	}
	s.flags(c)
	c.AddCommand(newMigrateUp(g, s), newMigrateStatus(s), newMigrateCheck(s), newMigrateDryRun(s))
	return c
}

func newMigrateUp(g *global, s *storage) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply what is missing",
		Long: `Applies the steps that this binary knows and the database has not, and creates tables and
views again that were dropped. A run that was interrupted goes on where it stopped. On a
cluster all statements run again each time, so that new nodes get their tables.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			logger, err := g.logger()
			if err != nil {
				return err
			}
			target, opt, err := s.target()
			if err != nil {
				return err
			}
			conn, err := target.Open(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := schema.Up(c.Context(), conn, opt, logger); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "schema of %s is at version %d\n", opt.Database, schema.Version)
			return err
		},
	}
}

func newMigrateStatus(s *storage) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show applied and pending steps",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			target, opt, err := s.target()
			if err != nil {
				return err
			}
			conn, err := target.Open(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			st, err := schema.ReadStatus(c.Context(), conn, opt)
			if err != nil {
				return err
			}
			return printStatus(c, output, st)
		},
	}
	outputFlag(c, &output)
	return c
}

func printStatus(c *cobra.Command, output string, st schema.Status) error {
	problem := ""
	if st.Problem != nil {
		problem = st.Problem.Error()
	}
	pending := make([]string, 0, len(st.Pending))
	for _, step := range st.Pending {
		pending = append(pending, step.Name)
	}
	sort.Strings(pending)
	if output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{
			"database": st.Database, "server_version": st.ServerVersion, "current": st.Current, "known": st.Known,
			"applied": len(st.Applied), "pending": pending, "missing": append([]string{}, st.Missing...), "problem": problem,
		})
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "database\t%s\nserver\t%s\nschema version\t%d of %d\napplied steps\t%d\npending steps\t%d\n",
		st.Database, st.ServerVersion, st.Current, st.Known, len(st.Applied), len(pending))
	for _, name := range pending {
		fmt.Fprintf(w, "\t%s\n", name)
	}
	if len(st.Missing) > 0 {
		fmt.Fprintf(w, "missing\t%s\n", strings.Join(st.Missing, ", "))
	}
	if problem != "" {
		fmt.Fprintf(w, "problem\t%s\n", problem)
	}
	return w.Flush()
}

func newMigrateCheck(s *storage) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Exit 0 only if this binary can work with the schema",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			target, opt, err := s.target()
			if err != nil {
				return err
			}
			conn, err := target.Open(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := schema.Check(c.Context(), conn, opt); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "ok")
			return err
		},
	}
}

func newMigrateDryRun(s *storage) *cobra.Command {
	return &cobra.Command{
		Use:   "dry-run",
		Short: "Print the SQL that up would run",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			target, opt, err := s.target()
			if err != nil {
				return err
			}
			conn, err := target.Open(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			statements, err := schema.DryRun(c.Context(), conn, opt)
			if err != nil {
				return err
			}
			if len(statements) == 0 {
				_, err = fmt.Fprintf(c.OutOrStdout(), "-- nothing to do: database %s is at schema version %d\n", opt.Database, schema.Version)
				return err
			}
			_, err = fmt.Fprint(c.OutOrStdout(), schema.Script(statements))
			return err
		},
	}
}
