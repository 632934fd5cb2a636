package genaiclickhouse

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"driftline/internal/genai/dialects"
	"driftline/internal/strictconf"
	"driftline/schema"
)

// Compression of what is sent to ClickHouse.
type Compression string

// The compressions.
const (
	CompressionLZ4  Compression = "lz4"
	CompressionZSTD Compression = "zstd"
	CompressionNone Compression = "none"
)

// StoreSpans says which spans get a thin row.
type StoreSpans string

// The choices of StoreSpans: spans of traces with GenAI spans, every span, or none.
const (
	StoreSpansGenAI StoreSpans = "genai"
	StoreSpansAll   StoreSpans = "all"
	StoreSpansNone  StoreSpans = "none"
)

// Config is the exporter's configuration.
type Config struct {
	// Endpoint is one address with its protocol: clickhouse://host:9000 (native) or
	// http(s)://host:8123. Give this or Endpoints.
	Endpoint string `mapstructure:"endpoint"`
	// Endpoints are several addresses of one protocol, tried in order.
	Endpoints []string `mapstructure:"endpoints"`
	// Database holds driftline's tables.
	Database string `mapstructure:"database"`
	// Username and Password log in to ClickHouse.
	Username string              `mapstructure:"username"`
	Password configopaque.String `mapstructure:"password"`
	// TLS turns TLS on for clickhouse:// and sets certificates for https://.
	TLS configoptional.Optional[configtls.ClientConfig] `mapstructure:"tls"`
	// Compression is lz4, zstd or none.
	Compression Compression `mapstructure:"compression"`
	// TimeoutConfig bounds one try of a batch, all its tables together.
	TimeoutConfig exporterhelper.TimeoutConfig `mapstructure:",squash"`
	// SpanAttributes are the attribute keys kept on thin spans. Keys that hold prompts,
	// completions or tool arguments are refused.
	SpanAttributes []string `mapstructure:"span_attributes"`
	// StoreSpans is genai, all or none.
	StoreSpans StoreSpans `mapstructure:"store_spans"`
	// MaxInsertRows bounds the rows of one INSERT. Batches are bounded in bytes by
	// sending_queue, which small rows could make many.
	MaxInsertRows int `mapstructure:"max_insert_rows"`

	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	RetryConfig configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`

	// prevent unkeyed literal initialization
	_ struct{}
}

var _ component.Config = (*Config)(nil)

const (
	defaultTimeout = 30 * time.Second
	// defaultQueueBytes bounds the memory of waiting data.
	defaultQueueBytes = 256 << 20
	// Batches go out after a second or at 32 MiB, which is about 15,000 spans with their
	// findings: at low traffic a table gets at most one insert a second, and at high traffic
	// parts are large, which saves the server most of its work (docs/benchmarks.md).
	defaultFlush         = time.Second
	defaultBatchMinBytes = 32 << 20
	defaultBatchMaxBytes = 64 << 20
	defaultConsumers     = 2
	// defaultInsertRows holds an INSERT to about 100 MB of memory on either side, and is far
	// below the million rows at which ClickHouse makes a second part of it.
	defaultInsertRows = 100_000
)

func createDefaultConfig() component.Config {
	batch := exporterhelper.NewDefaultBatchConfig()
	batch.Sizer = exporterhelper.RequestSizerTypeBytes
	batch.FlushTimeout = defaultFlush
	batch.MinSize = defaultBatchMinBytes
	batch.MaxSize = defaultBatchMaxBytes
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.Sizer = exporterhelper.RequestSizerTypeBytes
	queue.QueueSize = defaultQueueBytes
	queue.NumConsumers = defaultConsumers
	queue.Batch = configoptional.Some(batch)
	retry := configretry.NewDefaultBackOffConfig()
	retry.InitialInterval = time.Second
	// Data waits for ClickHouse for as long as the queue has room: the bound is bytes.
	retry.MaxElapsedTime = 0
	return &Config{
		Database:       schema.DefaultDatabase,
		Username:       "default",
		Compression:    CompressionLZ4,
		TimeoutConfig:  exporterhelper.TimeoutConfig{Timeout: defaultTimeout},
		SpanAttributes: DefaultSpanAttributes(),
		StoreSpans:     StoreSpansGenAI,
		MaxInsertRows:  defaultInsertRows,
		QueueConfig:    configoptional.Some(queue),
		RetryConfig:    retry,
	}
}

// Unmarshal reads the settings. Where keys are unknown or values cannot be read, the error
// names these and all that is wrong with the others.
func (c *Config) Unmarshal(conf *confmap.Conf) error { return strictconf.Read(conf, c) }

// Validate reports every problem at once, each with its key. Nested parts validate
// themselves.
func (c *Config) Validate() error {
	_, errs := c.parseEndpoints()
	if err := (schema.Options{Database: c.Database}).Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Username == "" {
		errs = append(errs, errors.New("username: is empty; name a ClickHouse user, such as default"))
	}
	if !slices.Contains([]Compression{CompressionLZ4, CompressionZSTD, CompressionNone}, c.Compression) {
		errs = append(errs, fmt.Errorf("compression: %q is unknown; want lz4, zstd or none", c.Compression))
	}
	if !slices.Contains([]StoreSpans{StoreSpansGenAI, StoreSpansAll, StoreSpansNone}, c.StoreSpans) {
		errs = append(errs, fmt.Errorf("store_spans: %q is unknown; want genai, all or none", c.StoreSpans))
	}
	if c.TimeoutConfig.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("timeout: %s bounds nothing; want a positive duration, such as 30s", c.TimeoutConfig.Timeout))
	}
	if c.MaxInsertRows <= 0 {
		errs = append(errs, fmt.Errorf("max_insert_rows: %d bounds nothing; want a positive number, such as %d", c.MaxInsertRows, defaultInsertRows))
	}
	for i, key := range c.SpanAttributes {
		switch {
		case key == "":
			errs = append(errs, fmt.Errorf("span_attributes[%d]: is empty; remove it", i))
		case dialects.NamesSomebody(key):
			errs = append(errs, fmt.Errorf("span_attributes[%d]: %q names a user or a tenant, which is stored as a keyed hash only, in the requests' user_hash and tenant_hash; remove it", i, key))
		case holdsContent(key):
			errs = append(errs, fmt.Errorf("span_attributes[%d]: %q holds prompt, completion or tool content, which is never stored; remove it", i, key))
		}
	}
	return errors.Join(errs...)
}

// target is where the exporter connects, from parsed endpoints.
type target struct {
	http  bool
	tls   bool
	path  string
	addrs []string
}

func (c *Config) parseEndpoints() (target, []error) {
	var errs []error
	list, key := c.Endpoints, func(i int) string { return fmt.Sprintf("endpoints[%d]", i) }
	if c.Endpoint != "" {
		if len(list) > 0 {
			errs = append(errs, errors.New("endpoint: is set next to endpoints; use one of them"))
		}
		list, key = []string{c.Endpoint}, func(int) string { return "endpoint" }
	}
	if len(list) == 0 {
		errs = append(errs, errors.New("endpoint: is empty; give an address such as clickhouse://127.0.0.1:9000 or http://127.0.0.1:8123"))
	}
	var t target
	scheme := ""
	for i, text := range list {
		u, addr, err := parseEndpoint(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key(i), err))
			continue
		}
		if scheme == "" {
			scheme, t.path = u.Scheme, strings.TrimSuffix(u.Path, "/")
		}
		if u.Scheme != scheme || strings.TrimSuffix(u.Path, "/") != t.path {
			errs = append(errs, fmt.Errorf("%s: %s:// and path %q differ from the first endpoint; all must have one protocol and path", key(i), u.Scheme, u.Path))
			continue
		}
		t.addrs = append(t.addrs, addr)
	}
	t.http = scheme == "http" || scheme == "https"
	asked := c.TLS.HasValue() && !c.TLS.Get().Insecure
	t.tls = scheme == "https" || scheme == "clickhouse" && asked
	if scheme == "http" && asked {
		errs = append(errs, errors.New("tls: is set for http://; use https:// or set tls.insecure: true"))
	}
	if scheme == "https" && c.TLS.HasValue() && !asked {
		errs = append(errs, errors.New("tls.insecure: is true for https://; use http:// or remove it"))
	}
	t.withPorts()
	return t, errs
}

// parseEndpoint never repeats the text in an error, since it may hold a password.
func parseEndpoint(text string) (*url.URL, string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, "", errors.New("is not an address; want clickhouse://host:9000, http://host:8123 or https://host:8443")
	case u.User != nil:
		return nil, "", errors.New("holds a user or password; use the keys username and password")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, "", errors.New("holds parameters; use the exporter's own keys")
	case u.Scheme == "clickhouse":
		if strings.Trim(u.Path, "/") != "" {
			return nil, "", errors.New("holds a path; use the key database")
		}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "", fmt.Errorf("has protocol %q; want clickhouse, http or https", u.Scheme)
	}
	return u, u.Host, nil
}

// withPorts adds ClickHouse's own port where none is given.
func (t *target) withPorts() {
	port := "9000"
	switch {
	case t.http && t.tls:
		port = "8443"
	case t.http:
		port = "8123"
	case t.tls:
		port = "9440"
	}
	for i, addr := range t.addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			t.addrs[i] = net.JoinHostPort(strings.Trim(addr, "[]"), port)
		}
	}
}
