package genaisegment

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var updateSchema = flag.Bool("update-schema", false, "rewrite config.schema.yaml from the Config struct")

// config.schema.yaml, which editors and other tools read, says what the Config struct
// says. After a change: go test ./processor/genaisegment -run ConfigSchema -update-schema
func TestConfigSchemaFollowsTheStruct(t *testing.T) {
	want := configSchema(t)
	if *updateSchema {
		require.NoError(t, os.WriteFile("config.schema.yaml", []byte(want), 0o644))
	}
	got, err := os.ReadFile("config.schema.yaml")
	require.NoError(t, err, "make it with -update-schema")
	require.Equal(t, want, string(got), "make it anew with -update-schema")
}

func configSchema(t *testing.T) string {
	t.Helper()
	comments := fieldComments(t)
	var b strings.Builder
	b.WriteString("# Generated from the Config struct; see schema_test.go.\n")
	b.WriteString("$schema: https://json-schema.org/draft/2020-12/schema\ntype: object\nadditionalProperties: false\nproperties:\n")
	value := reflect.ValueOf(*createDefaultConfig().(*Config))
	for i := range value.NumField() {
		f := value.Type().Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		require.NotEmpty(t, key, "field %s has no key", f.Name)
		fmt.Fprintf(&b, "  %s:\n    description: %q\n%s", key, comments[f.Name], schemaOf(t, key, value.Field(i)))
	}
	return b.String()
}

func schemaOf(t *testing.T, key string, v reflect.Value) string {
	t.Helper()
	if d, ok := v.Interface().(time.Duration); ok {
		return fmt.Sprintf("    type: string\n    format: duration\n    default: %s\n", d)
	}
	switch v.Kind() {
	case reflect.Int:
		return fmt.Sprintf("    type: integer\n    minimum: 1\n    default: %d\n", v.Int())
	case reflect.Bool:
		return fmt.Sprintf("    type: boolean\n    default: %t\n", v.Bool())
	case reflect.String:
		return fmt.Sprintf("    type: string\n    default: %q\n", v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			return "    type: array\n    items:\n      type: string\n"
		}
		return "    type: array\n    items:\n      type: object\n"
	case reflect.Map, reflect.Struct:
		return "    type: object\n"
	}
	t.Fatalf("no schema for the type of %s, %s", key, v.Type())
	return ""
}

// fieldComments reads what the source says of each field of Config. A comment may be
// about the fields that follow it, too.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		latest := ""
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if f.Doc != nil {
				latest = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
			for _, name := range f.Names {
				out[name.Name] = latest
			}
		}
		return false
	})
	require.NotEmpty(t, out)
	return out
}
