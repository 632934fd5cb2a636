package main

import (
	"fmt"
	"regexp"
	"strings"

	"driftline/schema"
)

const intro = `# Tables

This page is generated from the DDL in ` + "`schema/sql`" + ` and the comments of ` + "`internal/rows`" + `; change those and run ` + "`go generate ./schema`" + `.

Schema version %d, for ClickHouse %s or newer. ` + "`detectd migrate up`" + ` and standalone create and change the tables; collectors and detectors only check them.
` + "`detectd migrate dry-run`" + ` prints the SQL.

- ` + "`<name>_base`" + ` holds every revision of every row; the view ` + "`<name>`" + ` shows the latest revision of each key without tombstones. **Read the views.** They use FINAL inside.
- Filter on the columns of the sort key as they are (` + "`service_name`" + `, the time column), so that parts and granules are skipped. ` + "`trace_id`" + ` has a bloom filter.
- Instants are UTC; ` + "`_ns`" + ` is nanoseconds; NULL is unknown and never zero.
- ` + "`ingested_at`" + ` is the exporter's clock when it sent the row, ` + "`stored_at`" + ` the server's clock when it came in.
- On a cluster each table is ` + "`<name>_local`" + ` (Replicated; one that a version rebuilt is ` + "`<name>_v<version>_local`" + `) under a Distributed table of the plain name; the sharding expression is given with each table.
- Rows older than a table's retention go when their whole partition is past it. Retention is set with ` + "`--ttl-days`" + ` by the key given with each table, and stands in the table's DDL.

| table | rows are | key of retention | default, days |
| --- | --- | --- | --- |
%s
`

var about = map[string]string{
	"requests_base":             "user-visible tasks",
	"operations_base":           "logical calls inside requests",
	"attempts_base":             "tries of operations",
	"segments_base":             "slices of a request's wall clock",
	"open_requests_base":        "snapshots of requests still open",
	"spans_base":                "thin spans, to open a trace",
	"rollup_requests_1m_base":   "requests by slice and minute of the end",
	"rollup_requests_1h_base":   "requests by slice and hour of the end",
	"rollup_operations_1m_base": "operations by slice and minute of the end",
	"rollup_operations_1h_base": "operations by slice and hour of the end",
	"rollup_attempts_1m_base":   "attempts by slice and minute of the end",
	"rollup_attempts_1h_base":   "attempts by slice and hour of the end",
	"rollup_endpoints_1m_base":  "operations by endpoint and region, and minute of the end",
	"rollup_endpoints_1h_base":  "the same by hour",
	"rollup_inputs_1m_base":     "operations by target, streaming and bucket of input tokens, and minute of the end",
	"rollup_inputs_1h_base":     "the same by hour",
	"rollup_versions_1m_base":   "operations by service version and kind, and minute of the end",
	"rollup_versions_1h_base":   "the same by hour",
	"rollup_priorities_1m_base": "requests by priority and minute of the end",
	"rollup_priorities_1h_base": "the same by hour",
	"rollup_retries_10m_base":   "operations by agent and retries, and ten minutes of the end",
	"rollup_retries_1h_base":    "the same by hour",
	"rollup_retries_1d_base":    "the same by UTC day",
	"rollup_targets_10m_base":   "operations by agent, kind and target, and ten minutes of the end",
	"rollup_targets_1h_base":    "the same by hour",
	"rollup_targets_1d_base":    "the same by UTC day",
	"rollup_agents_10m_base":    "requests by agent and ten minutes of the end",
	"rollup_agents_1h_base":     "the same by hour",
	"rollup_agents_1d_base":     "the same by UTC day",
	"alerts_base":               "transitions of alerts",
	"detector_state_base":       "what the detector remembers between evaluations",
}

// extra explains columns that no row carries.
var extra = map[string]string{
	"ingested_at":    "The exporter's clock when the row was sent.",
	"stored_at":      "The server's clock when the row was stored.",
	"version":        "Of rows with one key, the one with the highest version is shown.",
	"minute":         "Start of the minute; of the ten minutes, hour or UTC day in the 10m, 1h and 1d tables.",
	"n":              "Rows aggregated; 0 is a cell that was emptied.",
	"weight_milli":   "Sum of sample weights, times 1000.",
	"at_cap":         "Ended at the declared timeout.",
	"retries":        "Retry slice: 0, 1, 2+ or unknown.",
	"steps_bucket":   "Bucket of the number of model calls.",
	"fingerprint":    "Stable identity of an alert, from its bounded labels.",
	"transition":     "Counts an alert's state changes.",
	"span_id":        "16 hex digits.",
	"started_at":     "When it started.",
	"duration_ns":    "How long it took.",
	"status_code":    "Unset, Ok or Error.",
	"attributes":     "Allow-listed attributes; never content.",
	"service_name":   "`service.name` of the resource.",
	"trace_id":       "32 lower-case hex digits.",
	"key":            "Name of the remembered item.",
	"state":          "Its content.",
	"evidence":       "Evidence as JSON.",
	"user_time_n":    "Values in the histogram.",
	"agent_time_n":   "Values in the histogram.",
	"overflow":       "Rows whose value had no room in the cell and went to `other`.",
	"composite":      "Work that is made of other operations (kinds agent and workflow), apart from its parts.",
	"input_bucket":   "Bucket of the number of input tokens.",
	"deadline_known": "Rows whose deadline is known.",
}

// page renders docs/schema.md.
func page(rowsFile string) (string, error) {
	comments, err := commentsOf(rowsFile)
	if err != nil {
		return "", err
	}
	ttl := schema.DefaultTTLDays()
	var summary, body strings.Builder
	for _, t := range schema.Tables() {
		days, key := "none", "none"
		if t.TTLKey != "" {
			days, key = fmt.Sprint(ttl[t.TTLKey]), "`"+t.TTLKey+"`"
		}
		fmt.Fprintf(&summary, "| [%s](#%s) | %s | %s | %s |\n", t.Name, t.Name, about[t.Name], key, days)
		writeTable(&body, t, comments[structOf[t.Name]])
	}
	body.WriteString("## Views\n\n")
	for _, v := range schema.Views() {
		fmt.Fprintf(&body, "`%s`\n\n```sql\n%s\n```\n\n", v.Name, v.Select)
	}
	head := fmt.Sprintf(intro, schema.Version, schema.MinServerVersion, strings.TrimSuffix(summary.String(), "\n"))
	return head + "\n" + strings.TrimRight(body.String(), "\n") + "\n", nil
}

func writeTable(b *strings.Builder, t schema.Table, comments map[string]string) {
	fmt.Fprintf(b, "## %s\n\nOne row is one of: %s.\n\n", t.Name, about[t.Name])
	for _, line := range [][2]string{
		{"Engine", t.Engine}, {"Partition", t.PartitionBy}, {"Sort key", t.OrderBy},
		{"Retention", t.TTL}, {"Settings", t.Settings}, {"Sharded by", t.ShardBy},
	} {
		if line[1] != "" {
			fmt.Fprintf(b, "- %s: `%s`\n", line[0], line[1])
		}
	}
	b.WriteString("\n| column | type | codec | meaning |\n| --- | --- | --- | --- |\n")
	short := putBack(t.Name)
	for _, c := range t.Columns {
		text := comments[c.Name]
		if _, carried := comments[c.Name]; !carried {
			text = extra[c.Name]
		}
		if note := short[c.Name]; note != "" {
			text = strings.TrimSpace(text + " " + note)
		}
		codec := ""
		if c.Codec != "" {
			codec = "`" + c.Codec + "`"
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", c.Name, c.Type, codec, text)
	}
	b.WriteString("\n")
}

var (
	replaced    = regexp.MustCompile(`(?m)^    (.+) AS (\w+),?$`)
	sameInstant = regexp.MustCompile(`toUnixTimestamp64Nano\(stored\.(\w+)\) = 0, (.+), stored\.\w+\)$`)
	ofDeadline  = regexp.MustCompile(`stored\.(\w+) > \d+, stored\.\w+ - `)
)

// putBack says of each column of a base table that is stored in short how to read it, by
// what the table's view makes of it.
func putBack(base string) map[string]string {
	out := map[string]string{}
	for _, v := range schema.Views() {
		if v.Name+"_base" != base {
			continue
		}
		for _, m := range replaced.FindAllStringSubmatch(v.Select, -1) {
			out[m[2]] = inShort(v.Name, m[1])
		}
	}
	return out
}

// inShort says what stands in a base table for what a view's expression makes of it.
func inShort(view, expression string) string {
	plain := func(s string) string { return strings.ReplaceAll(s, "stored.", "") }
	if m := sameInstant.FindStringSubmatch(expression); m != nil && !strings.Contains(expression, "remaining") {
		return fmt.Sprintf("In this table 1970-01-01 stands for `%s`; the view `%s` puts it back.", plain(m[2]), view)
	}
	if ofDeadline.MatchString(expression) {
		return fmt.Sprintf("In this table a value of more than twelve years is the deadline itself, in Unix nanoseconds; the view `%s` puts it back.", view)
	}
	return fmt.Sprintf("In this table values below 0 stand for what other columns say; the view `%s` puts it back: `%s`.", view, plain(expression))
}
