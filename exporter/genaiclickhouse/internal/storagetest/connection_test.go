package storagetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/engine"
	"driftline/internal/engine/enginetest"
	"driftline/internal/rows"
	"driftline/schema"
)

// authority is a certificate authority of a team's own.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a team's own authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

// pem is the authority as ca_pem wants it.
func (a authority) pem() configopaque.String {
	return configopaque.String(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// serve makes a certificate for a host.
func (a authority) serve(t *testing.T, host string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// terminate ends TLS before a plain target, for any protocol inside, and returns its address.
func terminate(t *testing.T, cert tls.Certificate, target string) string {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				wg.Go(func() {
					_, _ = io.Copy(server, client)
					_ = server.(*net.TCPConn).CloseWrite()
				})
				_, _ = io.Copy(client, server)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func engineHost(t *testing.T) string {
	u, err := url.Parse(enginetest.Shared(t).URL(t))
	require.NoError(t, err)
	return u.Host
}

func withTLS(change func(*configtls.ClientConfig)) option {
	return func(c *genaiclickhouse.Config) {
		settings := configtls.NewDefaultClientConfig()
		change(&settings)
		c.TLS = configoptional.Some(settings)
	}
}

func trust(a authority) option {
	return withTLS(func(c *configtls.ClientConfig) { c.CAPem = a.pem() })
}

func TestHTTPSWithAnOwnAuthority(t *testing.T) {
	r := newRig(t)
	ours, other := newAuthority(t), newAuthority(t)
	good := terminate(t, ours.serve(t, "127.0.0.1"), engineHost(t))
	exp := r.newExporter("https://"+good, componenttest.NewNopHost(), trust(ours))
	require.NoError(t, exp.ConsumeTraces(ctx, mixedSpans()))
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.spans"))

	misnamed := terminate(t, ours.serve(t, "clickhouse.example.net"), engineHost(t))
	named := r.newExporter("https://"+misnamed, componenttest.NewNopHost(), withTLS(func(c *configtls.ClientConfig) {
		c.CAPem, c.ServerName = ours.pem(), "clickhouse.example.net"
	}))
	require.NoError(t, named.ConsumeTraces(ctx, mixedSpans()))

	for name, c := range map[string]struct {
		endpoint string
		options  []option
		want     string
	}{
		"an authority nobody named": {"https://" + good, nil, "certificate"},
		"another authority":         {"https://" + good, []option{trust(other)}, "unknown authority"},
		"another host's":            {"https://" + misnamed, []option{trust(ours)}, "127.0.0.1"},
		"no TLS at all":             {"https://" + engineHost(t), []option{trust(ours)}, "HTTP response to HTTPS client"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOn(t, r.conn, r.db)
			host := &statusHost{}
			err := r.newExporter(c.endpoint, host, c.options...).ConsumeTraces(ctx, mixedSpans())
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "tls.ca_file", "it says what to do")
			require.False(t, consumererror.IsPermanent(err), "an operator may mend it")
			require.Equal(t, "StatusRecoverableError", host.last().String())
			require.EqualValues(t, 1, r.where("retries", "code=0", "error=TLS"))
			require.EqualValues(t, mixedSpans().SpanCount(), r.where("spans_refused", "class=retryable"))
			require.Zero(t, r.where("rows_received"), "nothing was sent before the server was known")
			r.requireLedger()
		})
	}
}

// TestTheEmbeddedEngineSaysThatItSpeaksHTTPOnly, within TLS too.
func TestTheEmbeddedEngineSaysThatItSpeaksHTTPOnly(t *testing.T) {
	ours := newAuthority(t)
	r := newBareRig(t)
	host := &statusHost{}
	for _, c := range []struct {
		address string
		options []option
	}{{engineHost(t), nil}, {terminate(t, ours.serve(t, "127.0.0.1"), engineHost(t)), []option{trust(ours)}}} {
		err := r.newExporter("clickhouse://"+c.address, host, c.options...).ConsumeTraces(ctx, mixedSpans())
		require.ErrorContains(t, err, "speaks HTTP only")
		require.False(t, consumererror.IsPermanent(err))
	}
	require.Equal(t, "StatusRecoverableError", host.last().String())
	require.EqualValues(t, 2, r.where("retries", "code=48", "error=NOT_IMPLEMENTED"))
}

// TestTheNativeProtocolEndsInTheSameRows goes through TLS and the native protocol to the
// engine, with every compression, and once more after a lost answer.
func TestTheNativeProtocolEndsInTheSameRows(t *testing.T) {
	r := newRig(t)
	ours := newAuthority(t)
	b, plain := newBridge(t, enginetest.Shared(t).URL(t))
	secure := terminate(t, ours.serve(t, "127.0.0.1"), plain)
	rng := newSeed(t)
	var all []rows.Row
	for _, c := range []genaiclickhouse.Compression{genaiclickhouse.CompressionNone, genaiclickhouse.CompressionLZ4, genaiclickhouse.CompressionZSTD} {
		exp := r.newExporter("clickhouse://"+secure, componenttest.NewNopHost(), trust(ours), func(cfg *genaiclickhouse.Config) { cfg.Compression = c })
		var list []rows.Row
		for _, table := range rows.Tables {
			for range 50 {
				list = append(list, randomRow(rng, table))
			}
		}
		td := numbered(len(all), list...)
		all = append(all, list...)
		b.loseAnswer.Store(2)
		err := exp.ConsumeTraces(ctx, td)
		require.Error(t, err, string(c))
		require.False(t, consumererror.IsPermanent(err))
		require.NoError(t, exp.ConsumeTraces(ctx, td), string(c))
		r.requireOnce(all)
	}
	for _, table := range rows.Tables {
		require.EqualValues(t, 150, r.count("SELECT count() FROM {db}."+string(table)+"_base"), "%s: the token keeps copies out", table)
	}
	// The same content has the same token over either protocol.
	one, two := numbered(1<<20, all[:50]...), ptrace.NewTraces()
	one.CopyTo(two)
	require.NoError(t, r.exp.ConsumeTraces(ctx, one))
	before := r.count("SELECT count() FROM {db}.spans_base")
	exp := r.newExporter("clickhouse://"+plain, componenttest.NewNopHost())
	require.NoError(t, exp.ConsumeTraces(ctx, two))
	require.Equal(t, before, r.count("SELECT count() FROM {db}.spans_base"))
	require.EqualValues(t, 3, r.where("retries", "code=0", "error=NO_ANSWER"))
	r.requireLedger()

	r.constrain()
	good := randomRow(rng, rows.TableAttempts)
	require.NoError(t, exp.ConsumeTraces(ctx, numbered(1<<21, good, poisoned(randomRow(rng, rows.TableAttempts)))))
	require.EqualValues(t, 1, r.where("rows_refused", "class=permanent"))
	require.Positive(t, r.where("insert_errors", "code=469", "error=VIOLATED_CONSTRAINT"))
	r.requireLedger()

	stranger := r.newExporter("clickhouse://"+secure, componenttest.NewNopHost(), trust(newAuthority(t)))
	require.ErrorContains(t, stranger.ConsumeTraces(ctx, mixedSpans()), "unknown authority")
}

func TestAWrongPasswordIsToldAndMended(t *testing.T) {
	t.Setenv(engine.EnvPassword, "s3cret")
	e := enginetest.Start(t)
	u, err := url.Parse(e.URL(t))
	require.NoError(t, err)
	conn, err := clickhouse.Open(&clickhouse.Options{Protocol: clickhouse.HTTP, Addr: []string{u.Host}, Auth: clickhouse.Auth{Username: "default", Password: "s3cret"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r := newRigOn(t, conn, "driftline")
	require.NoError(t, schema.Up(ctx, r.conn, schema.Options{Database: r.db}, nil))

	_, native := newBridge(t, e.URL(t))
	for _, c := range []struct {
		endpoint string
		password configopaque.String
	}{{e.URL(t), ""}, {e.URL(t), "wrong"}, {"clickhouse://" + native, "wrong"}} {
		host := &statusHost{}
		exp := r.newExporter(c.endpoint, host, func(cfg *genaiclickhouse.Config) { cfg.Password = c.password })
		before := r.where("retries")
		for range 2 {
			err := exp.ConsumeTraces(ctx, mixedSpans())
			require.ErrorContains(t, err, "check username and password")
			require.False(t, consumererror.IsPermanent(err), "an operator may mend it")
			require.NotContains(t, err.Error(), "s3cret")
		}
		require.EqualValues(t, 2, r.where("retries")-before)
		require.Equal(t, "StatusRecoverableError", host.last().String())
		require.Len(t, r.logs.FilterMessageSnippet("waiting for ClickHouse").All(), 1, "told once")
	}
	host := &statusHost{}
	exp := r.newExporter(e.URL(t), host, func(c *genaiclickhouse.Config) { c.Password = "s3cret" })
	require.NoError(t, exp.ConsumeTraces(ctx, mixedSpans()))
	require.Equal(t, "StatusOK", host.last().String())
	require.EqualValues(t, 1, r.count("SELECT count() FROM {db}.spans"))
	r.requireLedger()
}

// TestTheNextEndpointTakesOver stops the first of two addresses while data comes.
func TestTheNextEndpointTakesOver(t *testing.T) {
	r := newRig(t)
	first, through := newProxy(t, enginetest.Shared(t).URL(t))
	second, also := newProxy(t, enginetest.Shared(t).URL(t))
	exp := r.newExporter("", componenttest.NewNopHost(), withQueue, func(c *genaiclickhouse.Config) {
		c.Endpoints = []string{through, also}
	})
	rng := newSeed(t)
	var list []rows.Row
	send := func(n int) {
		for range n {
			row := randomRow(rng, rows.TableSegments)
			list = append(list, row)
			require.NoError(t, exp.ConsumeTraces(ctx, numbered(len(list), row)))
		}
		r.eventually(uint64(len(list)), "SELECT count() FROM {db}.segments")
	}
	send(10)
	require.Zero(t, second.served(), "the first is used while it answers")
	_ = first.l.Close()
	first.cut()
	send(10)
	require.Positive(t, second.served())
	require.NoError(t, exp.Shutdown(ctx))
	r.requireOnce(list)
	require.EqualValues(t, len(list), r.count("SELECT count() FROM {db}.segments_base"))
	r.requireLedger()
}

// TestEveryCompressionEndsInTheSameRows, and compressed bytes are fewer.
func TestEveryCompressionEndsInTheSameRows(t *testing.T) {
	rng := newSeed(t)
	var list []rows.Row
	for range 500 {
		list = append(list, randomRow(rng, rows.TableAttempts))
	}
	sent := map[genaiclickhouse.Compression]int64{}
	first := newRig(t)
	for _, c := range []genaiclickhouse.Compression{genaiclickhouse.CompressionNone, genaiclickhouse.CompressionLZ4, genaiclickhouse.CompressionZSTD} {
		r := newRigOn(t, first.conn, first.db)
		exp := r.newExporter(enginetest.Shared(t).URL(t), componenttest.NewNopHost(), func(cfg *genaiclickhouse.Config) { cfg.Compression = c })
		r.exec("TRUNCATE TABLE %s.attempts_base")
		require.NoError(t, exp.ConsumeTraces(ctx, traces(list...)), string(c))
		r.requireOnce(list)
		sent[c] = r.where("sent_bytes")
	}
	require.Less(t, sent[genaiclickhouse.CompressionLZ4], sent[genaiclickhouse.CompressionNone]*9/10)
	require.Less(t, sent[genaiclickhouse.CompressionZSTD], sent[genaiclickhouse.CompressionLZ4])
}
