package genaiclickhouse

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func TestEveryConfigurationInTheReadmeIsValid(t *testing.T) {
	t.Setenv("CLICKHOUSE_PASSWORD", "x")
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		retrieved, err := confmap.NewRetrievedFromYAML([]byte(os.Expand(block, func(name string) string { return os.Getenv(strings.TrimPrefix(name, "env:")) })))
		require.NoError(t, err)
		conf, err := retrieved.AsConf()
		require.NoError(t, err)
		sub, err := conf.Sub("exporters::genaiclickhouse")
		require.NoError(t, err)
		cfg := createDefaultConfig()
		require.NoError(t, sub.Unmarshal(cfg), block)
		require.NoError(t, confmap.Validate(cfg), block)
	}
}

func TestTheReadmeStatesTheDefaults(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	conf := confmap.New()
	require.NoError(t, conf.Marshal(cfg))
	for _, key := range []string{"endpoint", "endpoints", "database", "username", "password", "tls", "compression", "timeout", "max_insert_rows", "store_spans", "span_attributes", "sending_queue", "retry_on_failure"} {
		require.Contains(t, string(text), "`"+key+"`")
	}
	for key := range conf.ToStringMap() {
		require.Contains(t, string(text), "`"+key+"`", "the README does not explain %s", key)
	}
	for _, value := range []string{"queue_size: 268435456", "min_size: 33554432", "max_size: 67108864", "flush_timeout: 1s", "num_consumers: 2"} {
		require.Contains(t, string(text), value)
	}
	require.Contains(t, string(text), "| `max_insert_rows` | `100000` |")
	require.Equal(t, 100000, defaultInsertRows)
	require.EqualValues(t, 268435456, defaultQueueBytes)
	require.EqualValues(t, 33554432, defaultBatchMinBytes)
	require.EqualValues(t, 67108864, defaultBatchMaxBytes)
	require.Equal(t, 2, defaultConsumers)
}

func TestTheReadmeNamesEveryMetricAndNoOther(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	documented, err := os.ReadFile("documentation.md")
	require.NoError(t, err)
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### otelcol_exporter_genaiclickhouse_(\w+)$`).FindAllStringSubmatch(string(documented), -1) {
		there[m[1]] = true
	}
	require.Greater(t, len(there), 15)
	_, table, found := strings.Cut(string(text), "| question | metric | reading |\n| --- | --- | --- |\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		metrics := strings.Split(line, " | ")[1]
		for _, m := range regexp.MustCompile("`(\\w+)").FindAllStringSubmatch(metrics, -1) {
			if !strings.HasPrefix(m[1], "otelcol_") {
				require.True(t, there[m[1]], "%s is no metric", m[1])
				named[m[1]] = true
			}
		}
	}
	require.Equal(t, there, named, "a metric that answers no question")
}
