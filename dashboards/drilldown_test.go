package dashboards

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// C61: a drill-down that used a fixed column name opened nothing. The committed panel's
// link, followed as Grafana follows it, finds exactly the spans of the row's trace.
func TestC61PanelLinkOpensTheTrace(t *testing.T) {
	ctx := context.Background()
	conn := migrated(t)
	const id = "0123456789abcdef0123456789abcdef"
	started := time.Now().UTC() // a span that is sent again has the same start
	for _, row := range [][2]string{{id, "a1"}, {id, "a2"}, {id, "a2"}, {"fedcba9876543210fedcba9876543210", "b1"}} {
		require.NoError(t, conn.Exec(ctx, `INSERT INTO spans_base (service_name, trace_id, span_id, name, started_at, duration_ns, status_code, attributes, ingested_at)
			SELECT 'shop', ?, ?, 'chat m1', fromUnixTimestamp64Nano(?), 250000000, 'Error', map('gen_ai.request.model', 'm1'), now64(3)`, row[0], row[1], started.UnixNano()))
	}
	text, err := os.ReadFile("json/oncall.json")
	require.NoError(t, err)
	var page struct {
		Panels []struct {
			Title       string
			FieldConfig struct {
				Overrides []struct {
					Matcher    struct{ Options any }
					Properties []struct {
						ID    string
						Value any
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &page))
	link := ""
	for _, p := range page.Panels {
		if p.Title != "Requests with the most hidden time" {
			continue
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.Options == "trace_id" {
				link = o.Properties[0].Value.([]any)[0].(map[string]any)["url"].(string)
			}
		}
	}
	require.NotEmpty(t, link, "the panel's trace ids are links")
	link = strings.NewReplacer("${__value.raw}", id, "${datasource}", "uid-1").Replace(link)
	require.NotContains(t, link, "${")
	u, err := url.Parse(link)
	require.NoError(t, err)
	var panes map[string]struct {
		Queries []struct{ RawSQL string }
	}
	require.NoError(t, json.Unmarshal([]byte(u.Query().Get("panes")), &panes))
	rows, err := conn.Query(ctx, "SELECT concat(traceID, ' ', spanID, ' ', serviceName, ' ', operationName, ' ', toString(duration), ' ', toString(statusCode), ' ', tags[1]['value']) FROM ("+panes["a"].Queries[0].RawSQL+") ORDER BY spanID")
	require.NoError(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		got = append(got, line)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{id + " a1 shop chat m1 250 2 m1", id + " a2 shop chat m1 250 2 m1"}, got)
}
