package runbooks_test

import (
	"context"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/detector/dettest"
	"driftline/docs/runbooks"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

var detections = append(detector.Shadowable(), detector.Alert504)

func page(t *testing.T, detection string) string {
	text, err := runbooks.Pages.ReadFile(detection + ".md")
	require.NoError(t, err, "detection %s has no runbook", detection)
	return string(text)
}

func TestEveryDetectionHasAPage(t *testing.T) {
	names, err := fs.Glob(runbooks.Pages, "*.md")
	require.NoError(t, err)
	require.Len(t, names, len(detections)+1, "a page of no detection")
	list := page(t, "README")
	for _, d := range detections {
		require.Contains(t, list, "["+d+"]("+d+".md)")
		text := page(t, d)
		require.Contains(t, text, "\n`"+d+"`\n")
		for _, heading := range []string{"\n## What it means\n", "\n## First five minutes\n", "\n## What not to do\n"} {
			require.Contains(t, text, heading, d)
		}
	}
}

var block = regexp.MustCompile("(?s)```sql\n(.*?)```")

// The SQL of the pages runs on the schema and finds the rows that are there.
func TestTheSQLRuns(t *testing.T) {
	ctx := context.Background()
	conn, db := dettest.DB(t)
	now := time.Now().UTC().Truncate(time.Second)
	n := func(v int64) *int64 { return &v }
	three := uint32(3)
	yes := true
	common := rows.Common{ServiceName: "shop", TraceID: strings.Repeat("ab", 16), Revision: 1}
	facts := rows.Facts{Agent: "planner", Kind: rows.KindChat, Name: "chat", StartedAt: now.Add(-90 * time.Second).UnixNano(), EndedAt: now.Add(-30 * time.Second).UnixNano(),
		Outcome: rows.OutcomeError, ErrorClass: rows.ClassTimeout, HTTPStatus: 504, SampleWeight: 1}
	times := rows.Times{UserTimeNS: 60e9, DriftNS: n(9e9), DeadlineAt: n(now.Add(-31 * time.Second).UnixNano()), DeadlineMissed: &yes, MissCause: rows.MissInherited}
	tokens := rows.Tokens{InputTokens: n(9000), OutputTokens: n(300), CachedTokens: n(1000)}
	request := &rows.Request{Common: common, Facts: facts, Times: times, Tokens: tokens, RequestID: "00000000000000aa", Retries: &three, Attempts: &three}
	operation := &rows.Operation{Common: common, Facts: facts, Times: times, Tokens: tokens, OperationID: "00000000000000bb", RequestID: "00000000000000aa",
		Target: "m1", Endpoint: "llm.example.com", Stream: rows.StreamYes, Attempts: &three, InferenceTimeNS: n(20e9), TTFTNS: n(2e9), TTFTState: rows.TTFTKnown,
		TimePerOutputTokenNS: n(60e6), TimeoutNS: n(60e9), AtCap: true}
	open := &rows.OpenRequest{Common: common, Agent: "planner", ObservedAt: now.Add(-20 * time.Second).UnixNano(), StartedAt: now.Add(-time.Minute).UnixNano(), AgeNS: 40e9, Spans: 3}
	open.TraceID = strings.Repeat("cd", 16)
	require.NoError(t, dettest.Insert(ctx, conn, db, now, request, operation, open))
	for _, d := range detections {
		blocks := block.FindAllStringSubmatch(page(t, d), -1)
		require.NotEmpty(t, blocks, "%s shows no SQL", d)
		for _, b := range blocks {
			scoped := regexp.MustCompile(`\nFROM (\w+)`).ReplaceAllString(b[1], "\nFROM "+db+".$1")
			found, err := conn.Query(clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"service": "shop", "agent": "planner"})), scoped)
			require.NoError(t, err, "%s: %s", d, b[1])
			count := 0
			for found.Next() {
				count++
			}
			require.NoError(t, found.Err(), "%s: %s", d, b[1])
			require.NoError(t, found.Close())
			if !strings.Contains(b[1], "FROM attempts") {
				require.Positive(t, count, "%s finds nothing: %s", d, b[1])
			}
		}
	}
}
