// Package chconn opens ClickHouse connections from a DSN, with errors that say what
// to do and without ever showing the password.
package chconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"driftline/internal/version"
	"driftline/schema"
)

// EnvDSN names the environment variable that a DSN is read from when no flag gives one.
const EnvDSN = "DRIFTLINE_CLICKHOUSE_DSN"

// Target is a parsed DSN.
type Target struct {
	options  *clickhouse.Options
	database string
}

// Parse reads a DSN such as clickhouse://user:password@host:9000/driftline or
// http://host:8123/driftline. The database defaults to fallback.
func Parse(dsn, fallback string) (Target, error) {
	if strings.TrimSpace(dsn) == "" {
		return Target{}, fmt.Errorf("no ClickHouse DSN: give --clickhouse or set %s, for example clickhouse://user:password@host:9000/driftline", EnvDSN)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// url.Error would show the DSN with its password.
		return Target{}, errors.New("the ClickHouse DSN is not a URL: want clickhouse://user:password@host:9000/database or http(s)://host:8123/database; " + encodePassword)
	}
	if tornPassword(u) {
		return Target{}, errors.New("the ClickHouse DSN has '@' or ':' behind its host, as when a password holds a bare '/', '?' or '#': " + encodePassword)
	}
	switch u.Scheme {
	case "clickhouse", "tcp", "native", "http", "https":
	default:
		return Target{}, fmt.Errorf("the ClickHouse DSN has scheme %q: want clickhouse, http or https", u.Scheme)
	}
	if u.Scheme == "tcp" || u.Scheme == "native" {
		u.Scheme = "clickhouse"
	}
	o, err := clickhouse.ParseDSN(u.String())
	if err != nil {
		return Target{}, fmt.Errorf("the ClickHouse DSN for host %s: %w", u.Host, err)
	}
	t := Target{options: o, database: o.Auth.Database}
	if t.database == "" || t.database == "default" {
		t.database = fallback
	}
	o.Auth.Database = "" // the database may not exist before the first migration
	o.DialTimeout = 5 * time.Second
	if o.Settings == nil {
		o.Settings = clickhouse.Settings{}
	}
	// On a cluster an insert is done when the shards have it, not when this node has noted it.
	o.Settings["distributed_foreground_insert"] = 1
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"driftline-detectd", version.Version})
	return t, nil
}

const encodePassword = "the password must be URL-encoded ('/' as %2F, '?' as %3F, '#' as %23, '@' as %40, ':' as %3A, '%' as %25)"

// tornPassword says whether u looks like a DSN whose password holds a bare '/', '?' or
// '#': a URL's host ends there, so that part of the password became the host and the
// rest, up to the '@', part of what follows. Neither may be shown, and neither is meant.
func tornPassword(u *url.URL) bool {
	if strings.ContainsAny(u.Path, "@:") || strings.Contains(u.Fragment, "@") {
		return true
	}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		key, value, _ := strings.Cut(part, "=")
		if strings.Contains(key, "@") || key != "username" && key != "password" && strings.Contains(value, "@") {
			return true
		}
	}
	return false
}

// Database is the database the DSN names, or the fallback.
func (t Target) Database() string { return t.database }

// Address is the host and port, for messages; it holds no password.
func (t Target) Address() string { return strings.Join(t.options.Addr, ",") }

// Patient is t with connections that wait so long for an answer.
func (t Target) Patient(answer time.Duration) Target {
	o := *t.options
	o.ReadTimeout = answer
	return Target{options: &o, database: t.database}
}

// Open connects without choosing a database and pings once.
func (t Target) Open(ctx context.Context) (driver.Conn, error) {
	return t.open(ctx, "")
}

// OpenDatabase connects with the DSN's database chosen and pings once.
func (t Target) OpenDatabase(ctx context.Context) (driver.Conn, error) {
	return t.open(ctx, t.database)
}

// Later is a connection with the DSN's database chosen that dials at its first query, for a
// server that does not answer yet.
func (t Target) Later() (driver.Conn, error) {
	return t.lazy(t.database)
}

// Unreachable says whether an error of Open means that nothing answered at the address, as
// when the server is not up yet, or only a proxy before it did, unlike a server that refuses.
func Unreachable(err error) bool {
	var refused *net.OpError
	var name *net.DNSError
	var slow net.Error // also a request over HTTP that waits too long for its answer, as is the driver's own
	var answer *clickhouse.HTTPError
	switch {
	case errors.As(err, &answer):
		return answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusServiceUnavailable || answer.StatusCode == http.StatusGatewayTimeout
	case errors.As(err, &slow) && slow.Timeout():
		return true
	}
	return errors.As(err, &refused) || errors.As(err, &name) || errors.Is(err, io.EOF) || errors.Is(err, clickhouse.ErrAcquireConnTimeout)
}

func (t Target) lazy(database string) (driver.Conn, error) {
	o := *t.options
	o.Auth.Database = database
	conn, err := clickhouse.Open(&o)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse at %s: %w", t.Address(), err)
	}
	return conn, nil
}

func (t Target) open(ctx context.Context, database string) (driver.Conn, error) {
	conn, err := t.lazy(database)
	if err != nil {
		return nil, err
	}
	if err := conn.Ping(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("ClickHouse at %s does not answer: %w; check that it runs, that it is version %s or newer, that the port fits the scheme (9000 for clickhouse://, 8123 for http://), and user and password",
			t.Address(), err, schema.MinServerVersion)
	}
	return conn, nil
}
