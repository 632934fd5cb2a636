package genaiclickhouse

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"driftline/internal/genai/dialects"
)

func load(t *testing.T, id string) *Config {
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(id)
	require.NoError(t, err)
	cfg := createDefaultConfig()
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	return cfg.(*Config)
}

func TestLoadDefaults(t *testing.T) {
	cfg := load(t, "genaiclickhouse")
	require.Equal(t, "driftline", cfg.Database)
	require.Equal(t, 30*time.Second, cfg.TimeoutConfig.Timeout)
	queue := cfg.QueueConfig.Get()
	require.Equal(t, exporterhelper.RequestSizerTypeBytes, queue.Sizer)
	require.EqualValues(t, 256<<20, queue.QueueSize)
	require.True(t, queue.Batch.HasValue(), "batching does not depend on the collector's feature gate")
	require.Equal(t, time.Second, queue.Batch.Get().FlushTimeout)
	require.Equal(t, exporterhelper.RequestSizerTypeBytes, queue.Batch.Get().Sizer)
	require.Zero(t, cfg.RetryConfig.MaxElapsedTime, "data is kept for as long as the queue has room")
	got, errs := cfg.parseEndpoints()
	require.Empty(t, errs)
	require.Equal(t, target{addrs: []string{"127.0.0.1:9000"}}, got)
}

func TestLoadEverything(t *testing.T) {
	cfg := load(t, "genaiclickhouse/all")
	require.Equal(t, "llm", cfg.Database)
	require.Equal(t, CompressionZSTD, cfg.Compression)
	require.Equal(t, StoreSpansNone, cfg.StoreSpans)
	require.Equal(t, []string{"gen_ai.request.model"}, cfg.SpanAttributes)
	require.Equal(t, 2*time.Second, cfg.QueueConfig.Get().Batch.Get().FlushTimeout)
	require.EqualValues(t, defaultBatchMinBytes, cfg.QueueConfig.Get().Batch.Get().MinSize, "what is not set keeps its default")
	require.Equal(t, component.MustNewID("file_storage"), *cfg.QueueConfig.Get().StorageID)
	require.Equal(t, "[REDACTED]", cfg.Password.String())
	got, errs := cfg.parseEndpoints()
	require.Empty(t, errs)
	require.Equal(t, target{http: true, tls: true, addrs: []string{"ch-1.example.net:8443", "ch-2.example.net:443"}}, got)
}

func TestValidateReportsEveryProblemWithItsKey(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Endpoint = "http://user:hunter2@host"
	cfg.Endpoints = []string{"http://other"}
	cfg.Database = "a b"
	cfg.Username = ""
	cfg.Compression = "brotli"
	cfg.StoreSpans = "some"
	cfg.TimeoutConfig.Timeout = 0
	cfg.SpanAttributes = []string{"gen_ai.request.model", "", "gen_ai.input.messages", "user.id"}
	err := cfg.Validate()
	for _, key := range []string{"endpoint: is set next to", "endpoint: holds a user", "database:", "username:", "compression:", "store_spans:", "timeout:", "span_attributes[1]:", "span_attributes[2]:", `span_attributes[3]: "user.id" names a user or a tenant`} {
		require.ErrorContains(t, err, key)
	}
	require.NotContains(t, err.Error(), "hunter2")
}

func TestEndpoints(t *testing.T) {
	tls := configoptional.Some(configtls.NewDefaultClientConfig())
	insecure := configtls.NewDefaultClientConfig()
	insecure.Insecure = true
	good := func(want target, tls configoptional.Optional[configtls.ClientConfig], endpoints ...string) {
		t.Helper()
		got, errs := (&Config{Endpoints: endpoints, TLS: tls}).parseEndpoints()
		require.Empty(t, errs)
		require.Equal(t, want, got)
	}
	none := configoptional.None[configtls.ClientConfig]()
	good(target{addrs: []string{"a:9000", "b:1"}}, none, "clickhouse://a", "clickhouse://b:1/")
	good(target{tls: true, addrs: []string{"a:9440"}}, tls, "clickhouse://a")
	good(target{addrs: []string{"a:9000"}}, configoptional.Some(insecure), "clickhouse://a")
	good(target{http: true, addrs: []string{"[::1]:8123"}}, none, "http://[::1]")
	good(target{http: true, path: "/ch", addrs: []string{"a:8123"}}, none, "http://a/ch/")
	good(target{http: true, tls: true, addrs: []string{"a:8443"}}, none, "https://a")

	bad := func(want string, tls configoptional.Optional[configtls.ClientConfig], endpoints ...string) {
		t.Helper()
		_, errs := (&Config{Endpoints: endpoints, TLS: tls}).parseEndpoints()
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], want)
	}
	bad("endpoint: is empty", none)
	bad("endpoints[0]: is not an address", none, "localhost:9000x")
	bad("endpoints[0]: has protocol", none, "tcp://a:9000")
	bad("endpoints[0]: holds a path", none, "clickhouse://a/db")
	bad("endpoints[0]: holds parameters", none, "http://a?compress=1")
	bad("endpoints[1]:", none, "http://a", "clickhouse://b")
	bad("tls: is set for http://", tls, "http://a")
	bad("tls.insecure:", configoptional.Some(insecure), "https://a")
}

func TestDefaultSpanAttributesHoldNoContent(t *testing.T) {
	for _, key := range DefaultSpanAttributes() {
		require.False(t, holdsContent(key) || dialects.NamesSomebody(key), key)
	}
	for _, key := range []string{
		"gen_ai.prompt", "gen_ai.completion.0.content", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
		"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "input.value", "llm.input_messages.0.message.content",
		"traceloop.entity.output", "ai.prompt.messages", "http.request.header.authorization",
	} {
		require.True(t, holdsContent(key), key)
	}
}
