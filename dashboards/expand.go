package dashboards

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// PanelQuery is one statement that opening the dashboard sends.
type PanelQuery struct {
	// Name is the panel's title, or "variable" and the variable's name.
	Name string
	// Row is the title of the row that the panel stands in; empty for variables.
	Row string
	// SQL has Grafana's variables and the datasource plugin's macros in it: see [Expand].
	SQL string
}

// Queries lists every statement of the on-call dashboard, in its order.
func Queries() ([]PanelQuery, error) {
	built, err := OnCall()
	if err != nil {
		return nil, fmt.Errorf("build the on-call dashboard: %w", err)
	}
	var out []PanelQuery
	row := ""
	add := func(p dashboard.Panel) {
		for _, target := range p.Targets {
			out = append(out, PanelQuery{Name: *p.Title, Row: row, SQL: target.(Query).RawSQL})
		}
	}
	for _, p := range built.Panels {
		if p.RowPanel != nil {
			row = *p.RowPanel.Title
			for _, inner := range p.RowPanel.Panels {
				add(inner)
			}
		}
		if p.Panel != nil {
			add(*p.Panel)
		}
	}
	for _, v := range variables() {
		model, err := v.Build()
		if err != nil {
			return nil, fmt.Errorf("build the variables: %w", err)
		}
		if string(model.Type) == "query" && model.Query != nil && model.Query.String != nil {
			out = append(out, PanelQuery{Name: "variable " + model.Name, SQL: *model.Query.String})
		}
	}
	return out, nil
}

// View is what a viewer of a dashboard has chosen.
type View struct {
	From, To         time.Time
	Services, Agents []string
	// Points is about how many points Grafana wants along a panel; default 600.
	Points int
}

var (
	timeFilter   = regexp.MustCompile(`\$__timeFilter\(([^()]+)\)`)
	timeInterval = regexp.MustCompile(`\$__timeInterval\(([^()]+)\)`)
	leftOver     = regexp.MustCompile(`\$[{\w]+`)
)

// Expand does what the datasource plugin does with its macros and Grafana with its
// variables. An unknown macro or variable is an error.
func Expand(sql string, v View) (string, error) {
	if v.Points == 0 {
		v.Points = 600
	}
	step := max(int64(v.To.Sub(v.From).Seconds())/int64(v.Points), 1)
	sql = timeFilter.ReplaceAllString(sql, fmt.Sprintf("($1 >= toDateTime(%d) AND $1 <= toDateTime(%d))", v.From.Unix(), v.To.Unix()))
	sql = timeInterval.ReplaceAllString(sql, fmt.Sprintf("toStartOfInterval(toDateTime($1), INTERVAL %d second)", step))
	sql = strings.NewReplacer(
		"${service:singlequote}", quoted(v.Services), "${agent:singlequote}", quoted(v.Agents),
		"$__fromTime", fmt.Sprintf("toDateTime(%d)", v.From.Unix()), "$__toTime", fmt.Sprintf("toDateTime(%d)", v.To.Unix()),
		"$__interval_s", fmt.Sprint(step),
	).Replace(sql)
	if m := leftOver.FindString(sql); m != "" {
		return "", fmt.Errorf("dashboard SQL has the unknown macro or variable %s: %s", m, sql)
	}
	return sql, nil
}

func quoted(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
	}
	return strings.Join(out, ",")
}
