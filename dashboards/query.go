package dashboards

import (
	"errors"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
)

// PluginType is the id of Grafana's ClickHouse datasource plugin.
const PluginType = "grafana-clickhouse-datasource"

// pluginVersion is the plugin's version that queries are written for.
const pluginVersion = "4.11.0"

// Formats of the plugin's answers.
const (
	formatTimeSeries = 0
	formatTable      = 1
)

// Query is a query of the ClickHouse datasource plugin, which the SDK has no type for.
type Query struct {
	RefID         string            `json:"refId"`
	Hide          bool              `json:"hide,omitempty"`
	Datasource    map[string]string `json:"datasource"`
	EditorType    string            `json:"editorType"`
	QueryType     string            `json:"queryType"`
	Format        int               `json:"format"`
	RawSQL        string            `json:"rawSql"`
	PluginVersion string            `json:"pluginVersion"`
}

// ImplementsDataqueryVariant marks Query as a query for the SDK.
func (Query) ImplementsDataqueryVariant() {}

// DataqueryType is the plugin's id.
func (Query) DataqueryType() string { return PluginType }

// Equals says whether other is the same query.
func (q Query) Equals(other variants.Dataquery) bool {
	o, ok := other.(Query)
	return ok && o.RefID == q.RefID && o.RawSQL == q.RawSQL && o.Format == q.Format && o.Hide == q.Hide
}

// Validate refuses a query that would show nothing.
func (q Query) Validate() error {
	if q.RefID == "" || strings.TrimSpace(q.RawSQL) == "" {
		return errors.New("a query needs a refId and SQL")
	}
	return nil
}

// queryBuilder lets a Query stand where the SDK wants a builder.
type queryBuilder struct{ query Query }

// Build returns the query or why it is not valid.
func (b queryBuilder) Build() (variants.Dataquery, error) { return b.query, b.query.Validate() }

func newQuery(refID string, format int, sql string) queryBuilder {
	queryType := "timeseries"
	if format == formatTable {
		queryType = "table"
	}
	return queryBuilder{Query{
		RefID:         refID,
		Datasource:    map[string]string{"type": PluginType, "uid": "${datasource}"},
		EditorType:    "sql",
		QueryType:     queryType,
		Format:        format,
		RawSQL:        strings.TrimSpace(sql),
		PluginVersion: pluginVersion,
	}}
}

// seriesQuery answers with time series: one time column, text columns that name the
// series, and one number.
func seriesQuery(sql string) queryBuilder { return newQuery("A", formatTimeSeries, sql) }

// tableQuery answers with a table.
func tableQuery(sql string) queryBuilder { return newQuery("A", formatTable, sql) }
