package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"driftline/internal/bench/report"
)

// floor is the least warm median, on the small dataset, of a query whose own ratio counts:
// below it the round trip is what is compared.
const floor = 10 * time.Millisecond

// A query whose ratio is over doubt is measured moreRuns times as often again, since the greatest of
// many ratios of a few runs is mostly chance. All its runs count.
const (
	doubt    = 1.15
	moreRuns = 5
)

type measured struct {
	query
	large, small result
}

// ratio compares the fastest runs: what else the machine does makes the greatest of many
// ratios of medians large by itself.
func (m measured) ratio() float64 { return float64(m.large.fastest) / float64(m.small.fastest) }

// measure runs every query on both datasets and reports.
func measure(ctx context.Context, d *db, s shape, o options, out io.Writer, progress func(string, ...any)) error {
	// The limits of memory and time are those that the engine has by default.
	if err := d.start(ctx); err != nil {
		return err
	}
	var sets [2][]query
	for i, database := range []string{large, small} {
		conn, err := d.connTo(database)
		if err != nil {
			return err
		}
		defer conn.Close()
		qs, err := detectorQueries(ctx, conn, database, s)
		if err != nil {
			return err
		}
		panels, err := panelQueries(conn, database, s, groupPanels, 24*time.Hour, panelLimit)
		if err != nil {
			return err
		}
		month, err := panelQueries(conn, database, s, groupMonth, time.Duration(o.days)*24*time.Hour, 0)
		if err != nil {
			return err
		}
		sets[i] = slices.Concat(qs, panels, month)
	}
	dropped, err := d.dropCaches(ctx)
	if err != nil {
		return err
	}
	var all []measured
	for i, q := range sets[0] {
		if !strings.Contains(q.name, o.only) {
			continue
		}
		m := measured{query: q}
		var cold [2]time.Duration
		for k := range sets {
			if cold[k], err = d.cold(ctx, sets[k][i]); err != nil {
				return err
			}
		}
		got, err := d.warm(ctx, o.runs, []query{sets[0][i], sets[1][i]})
		if err != nil {
			return err
		}
		m.large, m.small = got[0], got[1]
		if m.ratio() > doubt {
			again, err := d.warm(ctx, moreRuns*o.runs, []query{sets[0][i], sets[1][i]})
			if err != nil {
				return err
			}
			m.large, m.small = again[0].with(m.large), again[1].with(m.small)
		}
		m.large.cold, m.small.cold = cold[0], cold[1]
		all = append(all, m)
		progress("%-22s %-45s %6.0f ms warm, %6.0f ms cold, %6.1f MB, %8d rows; small %6.0f ms", m.group, m.name, ms(m.large.warm), ms(m.large.cold), mb(m.large.bytes), m.large.rows, ms(m.small.warm))
	}
	if o.only != "" {
		return nil
	}
	rows, err := d.sizes(ctx, large)
	if err != nil {
		return err
	}
	body, ratio := render(all, rows, s, o, dropped)
	fmt.Fprintln(out, body)
	if o.out != "" {
		if err := report.Replace(o.out, "querybench", body); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "RATIO query_50m_over_5m=%.3f\n", ratio)
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
func mb(n uint64) float64        { return float64(n) / 1e6 }

// sizes lists the tables' rows and bytes.
func (d *db) sizes(ctx context.Context, database string) ([][]string, error) {
	rs, err := d.conn.Query(ctx, "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND database = '"+database+"' GROUP BY table ORDER BY table")
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	var out [][]string
	for rs.Next() {
		var table string
		var rows, bytes, parts uint64
		if err := rs.Scan(&table, &rows, &bytes, &parts); err != nil {
			return nil, err
		}
		if rows > 0 {
			out = append(out, []string{table, fmt.Sprint(rows), fmt.Sprintf("%.1f", mb(bytes)), fmt.Sprint(parts)})
		}
	}
	return out, rs.Err()
}

// ratios are how much slower the large dataset is: over the sum of all medians, and of the
// single query where it is the most.
func ratios(all []measured) (sum, worst float64, worstName string) {
	var l, s time.Duration
	for _, m := range all {
		switch m.group {
		case groupMonth, groupList, groupWhole, groupRounds:
			continue // the first two show what only one dataset has, the others are sums and write
		}
		l, s = l+m.large.warm, s+m.small.warm
		if m.small.warm >= floor && m.ratio() > worst {
			worst, worstName = m.ratio(), m.name
		}
	}
	return float64(l) / float64(s), worst, worstName
}

func render(all []measured, sizes [][]string, s shape, o options, dropped bool) (string, float64) {
	sum, worst, worstName := ratios(all)
	var b strings.Builder
	fmt.Fprintf(&b, "## Queries over %d million attempts\n\n", s.attempts/1_000_000)
	fmt.Fprintf(&b, "%d attempts over %d days against the same last %d days alone (%.1f million attempts), %d slices, seed %d, made by `go run ./internal/bench/querybench`.\n",
		s.attempts, s.days, smallDays, float64(s.attempts)/float64(s.days)*smallDays/1e6, s.slices, s.seed)
	fmt.Fprintf(&b, "The last 24 hours came hour by hour with the rollup job after each; earlier days are copies of them, shifted in time. Both datasets are read by one engine with its default limits.\n")
	cache := "the engine's caches and the page cache dropped"
	if !dropped {
		cache = "only the engine's caches dropped, since this was not run as root"
	}
	fmt.Fprintf(&b, "Warm is the median of %d runs, the datasets in turn; cold is one run with %s; a query of a ratio over %.2f is run %d times as often again. CPU is the engine's processor time per warm run. Times are the caller's, with the answer decoded; read is what the engine read from tables, uncompressed.\n\n", o.runs, cache, doubt, moreRuns)
	fmt.Fprintf(&b, "- Large over small, sum of all warm medians (detector, pages, 24-hour panels): %.2f.\n", sum)
	fmt.Fprintf(&b, "- Large over small, worst single query, fastest warm run against fastest, of those that take over %v: %.2f (%s).\n", floor, worst, worstName)
	ratio := max(sum, worst)
	fmt.Fprintf(&b, "- `query_50m_over_5m` is the larger of these: %.2f; the bar is 1.30.\n", ratio)
	var month uint64
	var widest measured
	over := []string{}
	for _, m := range all {
		if m.group == groupMonth {
			month += m.large.bytes
			if m.large.bytes > widest.large.bytes {
				widest = m
			}
		}
		if m.limit > 0 && m.large.warm > m.limit {
			over = append(over, fmt.Sprintf("%s (%.0f ms)", m.name, ms(m.large.warm)))
		}
	}
	if len(over) == 0 {
		fmt.Fprintf(&b, "- Every detector and page query is under %v and every 24-hour panel under %v.\n", queryLimit, panelLimit)
	} else {
		fmt.Fprintf(&b, "- Over their bar: %s.\n", strings.Join(over, "; "))
	}
	fmt.Fprintf(&b, "- The whole dashboard at %d days reads %.1f MB, its widest panel %.1f MB (%s); the bar is 100 MB.\n\n", s.days, mb(month), mb(widest.large.bytes), widest.name)
	group := ""
	var rows [][]string
	flush := func() {
		if group != "" {
			fmt.Fprintf(&b, "### %s\n\n%s\n", group, report.Table([]string{"Query", "Warm (ms)", "CPU (ms)", "Cold (ms)", "Rows read (thousand)", "Read (MB)", "Small, warm (ms)", "#Ratio of fastest"}, rows))
		}
		rows = nil
	}
	for _, m := range all {
		if m.group != group {
			flush()
			group = m.group
		}
		rows = append(rows, []string{m.name, fmt.Sprintf("%.0f", ms(m.large.warm)), fmt.Sprintf("%.0f", ms(m.large.cpu)), fmt.Sprintf("%.0f", ms(m.large.cold)),
			fmt.Sprintf("%.1f", float64(m.large.rows)/1000), fmt.Sprintf("%.1f", mb(m.large.bytes)), fmt.Sprintf("%.0f", ms(m.small.warm)), fmt.Sprintf("%.2f", m.ratio())})
	}
	flush()
	fmt.Fprintf(&b, "### What is stored\n\n%s", report.Table([]string{"Table", "#Rows", "On disk (MB)", "#Parts"}, sizes))
	return b.String(), ratio
}
