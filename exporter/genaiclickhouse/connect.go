package genaiclickhouse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.opentelemetry.io/collector/config/configtls"

	"driftline/internal/version"
)

// dialTimeout bounds the making of one connection.
const dialTimeout = 10 * time.Second

// open prepares a connection pool. Nothing is dialled yet, so a ClickHouse that is down
// is no error here. sent is told how many bytes went out.
func (c *Config) open(ctx context.Context, sent func(n int)) (driver.Conn, error) {
	t, errs := c.parseEndpoints()
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o := &clickhouse.Options{
		Protocol: clickhouse.Native,
		Addr:     t.addrs,
		// No database: statements name theirs, and one that does not exist yet must not
		// break the connection.
		Auth:             clickhouse.Auth{Username: c.Username, Password: string(c.Password)},
		DialTimeout:      dialTimeout,
		ReadTimeout:      c.TimeoutConfig.Timeout,
		MaxOpenConns:     c.consumers() + 1,
		MaxIdleConns:     c.consumers() + 1,
		ConnMaxLifetime:  10 * time.Minute,
		ConnOpenStrategy: clickhouse.ConnOpenInOrder,
		HttpUrlPath:      t.path,
		Compression:      &clickhouse.Compression{Method: compressionMethods[c.Compression]},
	}
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"driftline-genaiclickhouse", version.Version})
	if t.http {
		o.Protocol = clickhouse.HTTP
		if c.Compression != CompressionNone {
			o.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return framed{t}, nil }
		}
	}
	if t.tls {
		settings := configtls.NewDefaultClientConfig()
		if c.TLS.HasValue() {
			settings = *c.TLS.Get()
		}
		cfg, err := settings.LoadTLSConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		if cfg == nil {
			cfg = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		o.TLS = cfg
	}
	o.DialContext = dialer(o.TLS, t.http, sent)
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to ClickHouse at %v: %w", t.addrs, err)
	}
	return conn, nil
}

var compressionMethods = map[Compression]clickhouse.CompressionMethod{
	CompressionLZ4:  clickhouse.CompressionLZ4,
	CompressionZSTD: clickhouse.CompressionZSTD,
	CompressionNone: clickhouse.CompressionNone,
}

// writer sends inserts over conn, which open made.
func (c *Config) writer(conn driver.Conn) writer {
	t, _ := c.parseEndpoints() // open has reported what is wrong with them
	return writer{conn: conn, http: t.http, compression: c.Compression, database: c.Database}
}

func (c *Config) consumers() int {
	if c.QueueConfig.HasValue() {
		return max(1, c.QueueConfig.Get().NumConsumers)
	}
	return 4
}

// dialer counts bytes below TLS. Over HTTP the transport adds TLS itself; for the native
// protocol a dialer must.
func dialer(cfg *tls.Config, overHTTP bool, sent func(n int)) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		conn = &countingConn{Conn: conn, sent: sent}
		if cfg == nil || overHTTP {
			return conn, nil
		}
		named := cfg.Clone()
		if named.ServerName == "" {
			named.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, named)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secure, nil
	}
}

type countingConn struct {
	net.Conn
	sent func(n int)
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent(n)
	return n, err
}
