package dashboards

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// formatTrace is the plugin's format for the trace panel.
const formatTrace = 3

// traceSQL lists a trace's spans with the column names of Grafana's trace panel. The id is
// put in where the link is followed.
const traceSQL = `SELECT TraceId AS traceID, SpanId AS spanID, ParentSpanId AS parentSpanID, ServiceName AS serviceName, SpanName AS operationName,
 multiply(toUnixTimestamp64Nano(Timestamp), 0.000001) AS startTime, multiply(Duration, 0.000001) AS duration,
 arrayMap(k -> map('key', k, 'value', SpanAttributes[k]), mapKeys(SpanAttributes)) AS tags,
 arrayMap(k -> map('key', k, 'value', ResourceAttributes[k]), mapKeys(ResourceAttributes)) AS serviceTags,
 if(StatusCode = 'Error', 2, 0) AS statusCode
 FROM otel_traces WHERE TraceId = '` + clicked + `' ORDER BY Timestamp LIMIT 10000`

// clicked is Grafana's variable for the value of the cell whose link is followed.
const clicked = "${__value.raw}"

// opensTrace makes a column of trace ids a link to the trace, in Grafana's Explore on the
// same datasource.
func opensTrace() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "links", Value: []map[string]any{{"title": "Open the trace", "url": traceURL()}}}}
}

func traceURL() string {
	const uid = "${datasource}"
	pane := map[string]any{"a": map[string]any{
		"datasource": uid,
		"queries": []map[string]any{{
			"refId": "A", "datasource": map[string]string{"type": PluginType, "uid": uid},
			"editorType": "sql", "queryType": "traces", "format": formatTrace, "rawSql": strings.ReplaceAll(traceSQL, "\n", ""), "pluginVersion": pluginVersion,
		}},
		"range": map[string]string{"from": "now-7d", "to": "now"},
	}}
	text, err := json.Marshal(pane)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	escaped := url.QueryEscape(string(text))
	for _, variable := range []string{clicked, uid} { // Grafana finds them unescaped alone
		escaped = strings.ReplaceAll(escaped, url.QueryEscape(variable), variable)
	}
	return "/explore?schemaVersion=1&panes=" + escaped
}
