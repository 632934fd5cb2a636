package genaisegment

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"

	"driftline/internal/genai"
	"driftline/internal/genai/dialects"
	"driftline/internal/identity"
	"driftline/internal/strictconf"
)

// Config is what a user can set.
type Config struct {
	// CheckpointInterval is how often the spans of open traces are passed on, with the
	// rows of their finished operations and a snapshot of their open requests.
	CheckpointInterval time.Duration `mapstructure:"checkpoint_interval"`
	// Linger is the wait for stragglers after a root or a late span.
	Linger time.Duration `mapstructure:"linger"`
	// TraceTimeout is the silence after which a trace without a root is released.
	TraceTimeout time.Duration `mapstructure:"trace_timeout"`
	// AttemptWait is how long a failed attempt is given for a next one before its
	// operation counts as finished.
	AttemptWait time.Duration `mapstructure:"attempt_wait"`
	// Remember is how long, from its release or its last late span, a trace can still be
	// revised by late spans.
	Remember time.Duration `mapstructure:"remember"`

	// MaxTraces bounds open traces, MaxRememberedTraces those released and remembered.
	MaxTraces           int `mapstructure:"max_traces"`
	MaxRememberedTraces int `mapstructure:"max_remembered_traces"`
	// MaxSpans and MaxMemoryMiB bound open and remembered traces together.
	MaxSpans     int `mapstructure:"max_spans"`
	MaxMemoryMiB int `mapstructure:"max_memory_mib"`
	// MaxSpansPerTrace bounds how many spans of one trace are understood.
	MaxSpansPerTrace int `mapstructure:"max_spans_per_trace"`
	// MaxLabelValues bounds the distinct values of each label column.
	MaxLabelValues int `mapstructure:"max_label_values"`

	// CheckpointSpans allows synthetic spans that carry rows when no other span can.
	CheckpointSpans bool `mapstructure:"checkpoint_spans"`

	// TrustAnnotations lets spans that carry driftline's marks and rows pass as they
	// are. Without it these are taken off.
	TrustAnnotations bool `mapstructure:"trust_annotations"`

	// Dialects are laid over the built-in dialects, each in the shape of one of their
	// documents; see docs/dialects.md.
	Dialects []map[string]any `mapstructure:"dialects"`

	// Attributes are copied to the rows, at most maxAttributes of them, each value cut
	// to MaxAttributeLength bytes.
	Attributes         []string `mapstructure:"attributes"`
	MaxAttributeLength int      `mapstructure:"max_attribute_length"`

	// BudgetKeys and the following are further attribute keys to read from.
	BudgetKeys             []string `mapstructure:"budget_keys"`
	ReceivedAtKeys         []string `mapstructure:"received_at_keys"`
	PerceivedRemainingKeys []string `mapstructure:"perceived_remaining_keys"`
	AgentTimeKeys          []string `mapstructure:"agent_time_keys"`
	PriorityKeys           []string `mapstructure:"priority_keys"`

	// UserKeys and TenantKeys are further attribute keys that say whom a request was for.
	UserKeys   []string `mapstructure:"user_keys"`
	TenantKeys []string `mapstructure:"tenant_keys"`
	// IdentityKey is the key under which users and tenants are hashed; empty leaves them
	// unknown. Their raw values are never written.
	IdentityKey configopaque.String `mapstructure:"identity_key"`

	// RequestKeys are attribute keys, or several joined by a plus, whose value is one for
	// all requests that are tries of one task, each in a trace of its own.
	RequestKeys []string `mapstructure:"request_keys"`

	// Timeouts are what services declare outside their spans, by service name; "*" holds
	// for services that are not named.
	Timeouts map[string]Timeouts `mapstructure:"timeouts"`
	// ServiceTimeouts are the same as a list. A name with "::" in it can be given only here,
	// because the collector splits keys there.
	ServiceTimeouts []ServiceTimeouts `mapstructure:"service_timeouts"`
}

// ServiceTimeouts are the limits of the service that it names; "*" is every other one.
type ServiceTimeouts struct {
	Service  string `mapstructure:"service"`
	Timeouts `mapstructure:",squash"`
}

// Timeouts are the limits of one service; 0 is none known.
type Timeouts struct {
	// AttemptTimeout is the timeout of one attempt of a model call.
	AttemptTimeout time.Duration `mapstructure:"attempt_timeout"`
	// ToolTimeout is the timeout of a tool call or retrieval.
	ToolTimeout time.Duration `mapstructure:"tool_timeout"`
	// RequestBudget is how long a whole request may take, from receipt.
	RequestBudget time.Duration `mapstructure:"request_budget"`
}

const (
	maxAttributes  = 8
	maxTimeouts    = 1000
	maxExtraKeys   = 16
	maxValueLength = 1024
	// tick is how often due work is looked for.
	tick = 500 * time.Millisecond
)

func createDefaultConfig() component.Config {
	return &Config{
		CheckpointInterval: 10 * time.Second,
		Linger:             2 * time.Second,
		TraceTimeout:       10 * time.Minute,
		AttemptWait:        30 * time.Second,
		Remember:           5 * time.Minute,

		MaxTraces:           20_000,
		MaxRememberedTraces: 20_000,
		MaxSpans:            500_000,
		MaxMemoryMiB:        256,
		MaxSpansPerTrace:    10_000,
		MaxLabelValues:      1000,
		CheckpointSpans:     true,
		MaxAttributeLength:  128,
	}
}

// Unmarshal reads the settings. Where keys are unknown or values cannot be read, the error
// names these and all that is wrong with the others.
func (c *Config) Unmarshal(conf *confmap.Conf) error { return strictconf.Read(conf, c) }

// Validate reports every problem at once, each with its key.
func (c *Config) Validate() error {
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"checkpoint_interval", c.CheckpointInterval},
		{"linger", c.Linger},
		{"trace_timeout", c.TraceTimeout},
		{"attempt_wait", c.AttemptWait},
		{"remember", c.Remember},
	} {
		if d.value < tick || d.value > maxTimeout {
			report("'%s' must be between %s and %s, is %s", d.key, tick, maxTimeout, d.value)
		}
	}
	for _, n := range []struct {
		key               string
		value, atLeast, m int
	}{
		{"max_traces", c.MaxTraces, 1, 100_000_000},
		{"max_remembered_traces", c.MaxRememberedTraces, 1, 100_000_000},
		{"max_spans", c.MaxSpans, 1, 1_000_000_000},
		{"max_memory_mib", c.MaxMemoryMiB, 1, 1 << 20},
		{"max_spans_per_trace", c.MaxSpansPerTrace, 1, 10_000_000},
		{"max_label_values", c.MaxLabelValues, 1, 1_000_000},
		{"max_attribute_length", c.MaxAttributeLength, 1, maxValueLength},
	} {
		if n.value < n.atLeast || n.value > n.m {
			report("'%s' must be between %d and %d, is %d", n.key, n.atLeast, n.m, n.value)
		}
	}
	// A trace is timed out by its silence, and silence must be longer than the time in
	// which it would have been looked at.
	if c.TraceTimeout <= c.CheckpointInterval {
		report("'trace_timeout' (%s) must be longer than 'checkpoint_interval' (%s)", c.TraceTimeout, c.CheckpointInterval)
	}
	if c.TraceTimeout <= c.AttemptWait {
		report("'trace_timeout' (%s) must be longer than 'attempt_wait' (%s), or no retry could be waited for", c.TraceTimeout, c.AttemptWait)
	}
	// One trace alone must never be more than the buffer holds.
	if c.MaxSpansPerTrace > c.MaxSpans {
		report("'max_spans_per_trace' (%d) must not be more than 'max_spans' (%d)", c.MaxSpansPerTrace, c.MaxSpans)
	}
	if len(c.Attributes) > maxAttributes {
		report("'attributes' may name at most %d keys, names %d", maxAttributes, len(c.Attributes))
	}
	set, err := c.dialects()
	if err != nil {
		problems = append(problems, err)
	}
	statedBy := map[string]string{}
	for _, l := range c.keyLists() {
		if l.key != "attributes" && len(l.keys) > maxExtraKeys {
			report("'%s' may name at most %d keys, names %d", l.key, maxExtraKeys, len(l.keys))
		}
		seen := map[string]bool{}
		for i, k := range l.keys {
			if strings.TrimSpace(k) == "" {
				report("'%s[%d]' is empty: name an attribute key", l.key, i)
				continue
			}
			if set.CarriesContent(k) {
				report("'%s[%d]' names %q, which holds what people or models wrote and is never copied: remove it", l.key, i, k)
			}
			if seen[k] {
				report("'%s[%d]' names %q a second time", l.key, i, k)
			}
			seen[k] = true
			if l.key == "attributes" || l.key == "request_keys" {
				continue // these copy a value and give it no meaning; checkIdentity looks at them
			}
			if dialect, means := set.Means(k); means != "" {
				report("'%s[%d]' names %q, which dialect %s reads as %s, so it would have no effect here: remove it, or give the key another meaning or take it out under 'dialects'", l.key, i, k, dialect, means)
			}
			if other := statedBy[k]; other != "" && other != l.key {
				report("'%s[%d]' names %q, which '%s' names too: a key states one fact", l.key, i, k, other)
			}
			statedBy[k] = l.key
		}
	}
	c.checkIdentity(set, report)
	for i, k := range c.RequestKeys {
		for part := range strings.SplitSeq(k, "+") {
			if part != k && set.CarriesContent(part) {
				report("'request_keys[%d]' names %q, which holds what people or models wrote and is never copied: remove it", i, part)
			}
			if strings.TrimSpace(part) != part || part == "" && strings.TrimSpace(k) != "" {
				report("'request_keys[%d]' is %q: give attribute keys joined by '+', without spaces", i, k)
				break
			}
		}
	}
	c.checkTimeouts(report)
	return errors.Join(problems...)
}

// checkIdentity holds that users and tenants are written as hashes only.
func (c *Config) checkIdentity(set *genai.Dialects, report func(string, ...any)) {
	if _, err := identity.New(string(c.IdentityKey)); err != nil {
		report("'identity_key' %w", err)
	}
	ids := map[string]string{}
	for _, k := range c.UserKeys {
		ids[k] = string(identity.User)
	}
	for _, k := range c.TenantKeys {
		ids[k] = string(identity.Tenant)
	}
	check := func(key string, i int, name string) {
		whom := ids[name]
		if _, means := set.Means(name); whom == "" && (means == string(identity.User) || means == string(identity.Tenant)) {
			whom = means
		}
		if whom != "" {
			report("'%s[%d]' names %q, which says the %s and is never copied: the column %s_hash holds its keyed hash, see 'identity_key'", key, i, name, whom, whom)
		}
	}
	for i, k := range c.Attributes {
		check("attributes", i, k)
	}
	for i, k := range c.RequestKeys {
		for part := range strings.SplitSeq(k, "+") {
			check("request_keys", i, part)
		}
	}
}

type keyList struct {
	key  string
	keys []string
}

func (c *Config) keyLists() []keyList {
	return []keyList{
		{"attributes", c.Attributes},
		{"budget_keys", c.BudgetKeys},
		{"received_at_keys", c.ReceivedAtKeys},
		{"perceived_remaining_keys", c.PerceivedRemainingKeys},
		{"agent_time_keys", c.AgentTimeKeys},
		{"priority_keys", c.PriorityKeys},
		{"user_keys", c.UserKeys},
		{"tenant_keys", c.TenantKeys},
		{"request_keys", c.RequestKeys},
	}
}

func (c *Config) maxBytes() int64 { return int64(c.MaxMemoryMiB) << 20 }

// dialects compiles what the user lays over the built-in dialects; nil without any, or
// with an error that joins every problem.
func (c *Config) dialects() (*genai.Dialects, error) {
	if len(c.Dialects) == 0 {
		return nil, nil
	}
	var docs []dialects.Document
	var problems []error
	for i, value := range c.Dialects {
		d, err := dialects.ParseValue(fmt.Sprintf("dialects[%d]", i), value)
		docs, problems = append(docs, d), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return genai.NewDialects(docs)
}

func (c *Config) options() (genai.Options, error) {
	set, err := c.dialects()
	if err != nil {
		return genai.Options{}, err
	}
	hasher, err := identity.New(string(c.IdentityKey))
	return genai.Options{
		Dialects:               set,
		Attributes:             c.Attributes,
		MaxAttributeLength:     c.MaxAttributeLength,
		BudgetKeys:             c.BudgetKeys,
		ReceivedAtKeys:         c.ReceivedAtKeys,
		PerceivedRemainingKeys: c.PerceivedRemainingKeys,
		AgentTimeKeys:          c.AgentTimeKeys,
		PriorityKeys:           c.PriorityKeys,
		UserKeys:               c.UserKeys,
		TenantKeys:             c.TenantKeys,
		Identity:               hasher,
		RequestKeys:            c.RequestKeys,
		Timeouts:               c.timeouts(),
	}, err
}
