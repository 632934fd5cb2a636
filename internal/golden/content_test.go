package golden

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/genai"
	"driftline/internal/rows"
)

// requireNoContent checks that of all attributes only those of the allow list are in the
// tables, and that no text there is long enough for a prompt.
func (s *storage) requireNoContent(t *testing.T) {
	t.Helper()
	allowed := genaiclickhouse.DefaultSpanAttributes()
	records := s.records(t, "SELECT name, attributes FROM "+s.db+".spans")
	require.NotEmpty(t, records)
	for _, record := range records {
		require.LessOrEqual(t, len(record["name"].(string)), 256)
		for key, value := range record["attributes"].(map[string]string) {
			require.True(t, slices.Contains(allowed, key), "attribute %q of span %q is not on the allow list", key, record["name"])
			require.LessOrEqual(t, len(value), 256)
			require.NotContains(t, value, secret)
		}
	}
	for _, table := range rows.Tables {
		for _, row := range s.view(t, table) {
			value := reflect.ValueOf(row).Elem()
			for _, f := range rows.Fields(table) {
				field := value.FieldByIndex(f.Index)
				switch field.Kind() {
				case reflect.String:
					require.LessOrEqual(t, len(field.String()), 256, f.Column)
					require.NotContains(t, field.String(), secret, f.Column)
				case reflect.Map:
					copied := maps.Clone(field.Interface().(map[string]string))
					if copied[genai.PartialKey] == genai.CallSpanMissing {
						delete(copied, genai.PartialKey) // driftline's own
					}
					require.Empty(t, copied, "no attributes are configured to be copied")
				}
			}
		}
	}
}
