package genaisegment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"driftline/internal/genai"
	"driftline/processor/genaisegment/internal/metadata"
)

func load(t *testing.T, all *confmap.Conf, name string) *Config {
	t.Helper()
	sub, err := all.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig()
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg.(*Config)
}

func TestConfigIsRead(t *testing.T) {
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, createDefaultConfig(), load(t, all, ""))
	require.NoError(t, confmap.Validate(createDefaultConfig()))

	cfg := load(t, all, "all")
	require.NoError(t, confmap.Validate(cfg))
	require.Equal(t, &Config{
		CheckpointInterval: 5 * time.Second, Linger: time.Second, TraceTimeout: 30 * time.Minute,
		AttemptWait: 20 * time.Second, Remember: 2 * time.Minute,
		MaxTraces: 1000, MaxRememberedTraces: 3000, MaxSpans: 20_000, MaxMemoryMiB: 64, MaxSpansPerTrace: 2000, MaxLabelValues: 200, TrustAnnotations: true,
		Attributes: []string{"tenant", "app.plan"}, MaxAttributeLength: 64,
		BudgetKeys: []string{"slo.budget_ms"}, ReceivedAtKeys: []string{"gateway.received_unix_ms"},
		PerceivedRemainingKeys: []string{"planner.left_s"}, AgentTimeKeys: []string{"agent.busy_ms"},
		PriorityKeys: []string{"app.priority"},
		UserKeys:     []string{"app.user"}, TenantKeys: []string{"app.org"}, IdentityKey: "0123456789abcdef",
		RequestKeys: []string{"client_request_id", "gen_ai.conversation.id+turn"},
		Timeouts: map[string]Timeouts{
			"checkout": {AttemptTimeout: 30 * time.Second, ToolTimeout: 10 * time.Second, RequestBudget: 90 * time.Second},
			"*":        {AttemptTimeout: 10 * time.Minute},
		},
		ServiceTimeouts: []ServiceTimeouts{{Service: "shop::checkout", Timeouts: Timeouts{AttemptTimeout: 20 * time.Second, ToolTimeout: 5 * time.Second, RequestBudget: time.Minute}}},
		Dialects:        []map[string]any{{"dialect": "acme", "attributes": []any{map[string]any{"key": "acme.model", "means": "model", "precedence": 30}}}},
	}, cfg)
	opt, err := cfg.options()
	require.NoError(t, err)
	require.Equal(t, genai.Timeouts{Attempt: 30 * time.Second, Tool: 10 * time.Second, Request: 90 * time.Second}, opt.Timeouts["checkout"])
	require.Equal(t, genai.Timeouts{Attempt: 20 * time.Second, Tool: 5 * time.Second, Request: time.Minute}, opt.Timeouts["shop::checkout"])
	require.Contains(t, opt.Timeouts, genai.AnyService)
	require.Equal(t, cfg.BudgetKeys, opt.BudgetKeys)
	require.Equal(t, cfg.Attributes, opt.Attributes)
	require.Equal(t, []string{"app.user", "app.org"}, []string{opt.UserKeys[0], opt.TenantKeys[0]})
	require.NotNil(t, opt.Identity)
	require.NotContains(t, fmt.Sprintf("%v %+v", cfg, *cfg), "0123456789abcdef", "the key is not shown")
	require.True(t, genai.Wanted("acme.model", &opt))
	require.False(t, genai.Wanted("acme.model", nil))
}

func TestEveryProblemIsReportedWithItsKey(t *testing.T) {
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	err = confmap.Validate(load(t, all, "bad"))
	for _, want := range []string{
		"'checkpoint_interval' must be between 500ms and 168h0m0s, is 0s",
		"'linger' must be between 500ms and 168h0m0s, is -1s",
		"'max_traces' must be between 1 and",
		"'max_memory_mib' must be between 1 and",
		"'max_label_values' must be between 1 and",
		"'max_attribute_length' must be between 1 and 1024, is 100000",
		"'trace_timeout' (1s) must be longer than 'attempt_wait' (30s)",
		"'max_spans_per_trace' (10000) must not be more than 'max_spans' (100)",
		"'attributes' may name at most 8 keys, names 11",
		`'attributes[9]' names "a" a second time`,
		"'attributes[10]' is empty",
		`'request_keys[0]' is "a+": give attribute keys joined by '+'`,
		"'timeouts::shop::attempt_timeout' must be between 1ms and 168h0m0s, is -1s",
		"'timeouts::empty' sets no limit",
		"'service_timeouts[0]::attempt_timeout' (2m0s) must not be longer than its 'request_budget' (1m30s)",
		"'service_timeouts[1]::service' names \"slow\", which 'timeouts::slow' names too",
		"'service_timeouts[2]::service' is missing",
		"'service_timeouts[3]' sets no limit",
		"'service_timeouts[4]::service' names \"a::b\", which 'service_timeouts[0]' names too",
		"'service_timeouts[4]::tool_timeout' must be between 1ms and 168h0m0s, is 200h0m0s",
		`'budget_keys[0]' names "request.budget_ms", which dialect common reads as budget, so it would have no effect here`,
		`'priority_keys[1]' names "gen_ai.request.model", which dialect otel reads as model, so it would have no effect here`,
		"'timeouts::slow::attempt_timeout' (2m0s) must not be longer than its 'request_budget' (1m30s)",
		`'priority_keys[0]' names "gen_ai.input.messages", which holds what people or models wrote`,
		`'user_keys[0]' names "user.id", which dialect common reads as user, so it would have no effect here`,
		`'tenant_keys[0]' names "app.user", which 'user_keys' names too`,
		"'identity_key' has 6 bytes, and with fewer than 16 hashes could be undone",
		"dialects[0].attributes[0].unit: is missing: ttft is duration",
		`dialects[0].attributes[1].means: unknown meaning "modell"`,
		"dialects[1].colour: unknown key; known are dialect, title",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "canary", "the key is not shown")
}

// Who a request was for is written as a hash or not at all.
func TestWhatNamesSomebodyIsNotCopied(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Attributes, cfg.UserKeys = []string{"tenant", "app.user", "tenant.id"}, []string{"app.user"}
	cfg.RequestKeys = []string{"gen_ai.conversation.id+user.id"}
	err := cfg.Validate()
	for _, want := range []string{
		`'attributes[1]' names "app.user", which says the user and is never copied: the column user_hash holds its keyed hash`,
		`'attributes[2]' names "tenant.id", which says the tenant`,
		`'request_keys[0]' names "user.id", which says the user`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "'attributes[0]'")
}

// Times so long that they pass the end of the clock would be over at once.
func TestTimesAreBounded(t *testing.T) {
	for _, set := range []func(*Config, time.Duration){
		func(c *Config, d time.Duration) { c.TraceTimeout = d },
		func(c *Config, d time.Duration) { c.Remember = d },
		func(c *Config, d time.Duration) { c.Linger = d },
	} {
		cfg := createDefaultConfig().(*Config)
		set(cfg, 7*24*time.Hour)
		require.NoError(t, confmap.Validate(cfg))
		set(cfg, 2_500_000*time.Hour)
		require.ErrorContains(t, confmap.Validate(cfg), "must be between 500ms and 168h0m0s, is 2500000h0m0s")
	}
}

func TestAKeyStatesOneFact(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Attributes, cfg.BudgetKeys, cfg.AgentTimeKeys = []string{"d_ms"}, []string{"d_ms"}, []string{"x_ms", "d_ms"}
	require.EqualError(t, cfg.Validate(), `'agent_time_keys[1]' names "d_ms", which 'budget_keys' names too: a key states one fact`)
	cfg.AgentTimeKeys = nil
	require.NoError(t, cfg.Validate())
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestReadmeExamplesAreValid(t *testing.T) {
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := fence.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for i, block := range blocks {
		retrieved, err := confmap.NewRetrievedFromYAML([]byte(block[1]))
		require.NoError(t, err)
		conf, err := retrieved.AsConf()
		require.NoError(t, err)
		processors, err := conf.Sub("processors")
		require.NoError(t, err)
		require.True(t, processors.IsSet("genaisegment"), "block %d", i+1)
		require.NoError(t, confmap.Validate(load(t, processors, "")), "block %d", i+1)
	}
}

// Every key is explained to the user, with its default.
func TestReadmeNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	conf := confmap.New()
	require.NoError(t, conf.Marshal(createDefaultConfig()))
	require.Len(t, conf.ToStringMap(), 27)
	for key := range conf.ToStringMap() {
		require.Contains(t, string(page), "| `"+key+"` |")
	}
}
