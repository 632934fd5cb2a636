package settings

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"time"

	"driftline/detector"
)

const intro = `# Settings of detection

This page is generated from the comments and defaults in ` + "`detector/config.go`, `detector/rules*.go` and `detector/maintenance.go`" + `; change those and run ` + "`go generate ./internal/settings`" + `.

` + "`detectd serve`, `standalone`, `replay`, `backtest` and `check`" + ` read detection's settings from the YAML file given with ` + "`--config`" + `. What the file does not set keeps its default, and flags go before the file.
` + "`detectd check detectd.yaml`" + ` says everything that is wrong with a file, or prints every setting with its value.
A running detectd reads the file again on SIGHUP. Alerts, votes and what waits to be sent stay; a file with mistakes changes nothing and is logged.

Ratios and rises are factors: 3 is "three times", an increase by 200 %%. Shares are between 0 and 1. [detections.md](detections.md) says how each detection uses its settings.

` + "```yaml" + `
%s` + "```" + `

## General

| key | default | meaning |
| --- | --- | --- |
%s
## shadow and overrides

| key | meaning |
| --- | --- |
| ` + "`shadow`" + ` | detections that are stored and shown and never sent, such as ` + "`[p95_surge]`" + `; ` + "`--shadow`" + ` adds to them |
| ` + "`overrides`" + ` | a list of settings for some slices. Each item names at least one of the keys below and then only what differs from the rest of the file, in the sections of the detections or as ` + "`shadow`" + `. **The first item that matches a slice is the only one used for it.** |

## ` + "`maintenance`" + `

A list of stretches of time, once or each week. Alerts that fire in one are kept, shown and counted and not sent; those that still fire after its end are sent then. Its time stays out of the baseline. A stretch may be narrowed by
the keys an override matches by; without any it is for everything, driftline's own alerts included.

| key | meaning |
| --- | --- |
%s
What an override or a maintenance matches (a trailing ` + "`*`" + ` matches every value that begins so):

| key | matches |
| --- | --- |
%s`

// Example is the file that docs/configuration.md shows; a test reads it.
const Example = `eval_delay: 45s
shadow: [p95_surge]
deadline_drift:
  min_drift: 2s
overrides:
  - service: billing-*      # large and slow: needs more evidence
    p95_spread:
      min_operations: 200
      ratio: 6
  - service: nightly-batch
    shadow: [retry_bimodality, deadline_drift, p95_spread, p95_surge]
maintenance:
  - service: billing-*
    weekly: Sat,Sun 22:00-02:00
    zone: Europe/Berlin
    reason: database backup
  - from: 2026-03-07T22:00:00Z
    to: 2026-03-08T02:00:00Z
    reason: move to the new cluster
`

// Page renders docs/configuration.md from the detector's sources in dir.
func Page(dir string) (string, error) {
	comments, err := commentsOf(dir+"/config.go", dir+"/rules.go", dir+"/rules_attempts.go", dir+"/rules_work.go", dir+"/maintenance.go")
	if err != nil {
		return "", err
	}
	cfg := detector.DefaultConfig()
	var sections strings.Builder
	rules := reflect.ValueOf(cfg.Rules)
	for i := range rules.NumField() {
		f := rules.Type().Field(i)
		if key := keyOf(f); key != "" {
			fmt.Fprintf(&sections, "\n## `%s`\n\n| key | default | meaning |\n| --- | --- | --- |\n%s", key, table(rules.Field(i), comments, true))
		}
	}
	return fmt.Sprintf(intro, Example, table(reflect.ValueOf(cfg), comments, true), table(reflect.ValueOf(detector.Maintenance{}), comments, false), table(reflect.ValueOf(detector.Match{}), comments, false)) + sections.String(), nil
}

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "-" {
		return ""
	}
	return key
}

func table(v reflect.Value, comments map[string]string, defaults bool) string {
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := keyOf(f)
		if key == "" || f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			continue
		}
		fmt.Fprintf(&b, "| `%s` |", key)
		if defaults {
			fmt.Fprintf(&b, " %s |", shown(v.Field(i)))
		}
		fmt.Fprintf(&b, " %s |\n", comments[v.Type().Name()+"."+f.Name])
	}
	return b.String()
}

func shown(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		text := d.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	}
	if v.Kind() == reflect.String && v.Len() == 0 {
		return "none"
	}
	return fmt.Sprint(v.Interface())
}

var spaces = regexp.MustCompile(`\s+`)

// commentsOf reads the doc comments of all struct fields: Struct.Field to text.
func commentsOf(files ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the comments of the settings: %w", err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, name := range f.Names {
						text := strings.TrimSpace(spaces.ReplaceAllString(f.Doc.Text(), " "))
						text = strings.TrimPrefix(text, name.Name+" is ")
						if rest, ok := strings.CutPrefix(text, name.Name+" "); ok {
							key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml"), ",")
							text = "`" + key + "` " + rest
						}
						out[spec.Name.Name+"."+name.Name] = strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
					}
				}
			}
			return true
		})
	}
	return out, nil
}
