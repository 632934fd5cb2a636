package storagetest

import (
	"bytes"
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

// TestNativeSpeaksTLS looks at what the native protocol says within TLS. The engine speaks
// HTTP only, so a listener plays ClickHouse's first words: it takes the client's hello and
// refuses its login, in the protocol's own form.
func TestNativeSpeaksTLS(t *testing.T) {
	ours := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	hellos := make(chan []byte, 16)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				buf := make([]byte, 4<<10)
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				hellos <- buf[:n]
				_, _ = conn.Write(loginRefused)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	r := newBareRig(t)
	host := &statusHost{}
	exp := r.newExporter("clickhouse://"+terminate(t, ours.serve(t, "127.0.0.1"), l.Addr().String()), host, trust(ours), func(c *genaiclickhouse.Config) {
		c.Username, c.Password = "shop", "s3cret"
	})
	err = exp.ConsumeTraces(ctx, mixedSpans())
	require.ErrorContains(t, err, "check username and password")
	require.NotContains(t, err.Error(), "s3cret")
	hello := <-hellos
	require.Zero(t, hello[0], "a native hello")
	require.True(t, bytes.Contains(hello, []byte("shop")))
	require.Equal(t, "StatusRecoverableError", host.last().String())
	require.EqualValues(t, 1, r.where("retries", "code=516", "error=AUTHENTICATION_FAILED"))

	other := r.newExporter("clickhouse://"+terminate(t, ours.serve(t, "127.0.0.1"), l.Addr().String()), host, trust(newAuthority(t)))
	require.ErrorContains(t, other.ConsumeTraces(ctx, mixedSpans()), "unknown authority")
}

// loginRefused is the native protocol's packet 2, an exception: code, name, message, stack
// trace, and that none is nested.
var loginRefused = func() []byte {
	out := []byte{2, 0x04, 0x02, 0, 0} // 516, little endian
	for _, text := range []string{"DB::Exception", "shop: Authentication failed", ""} {
		out = append(append(out, byte(len(text))), text...)
	}
	return append(out, 0)
}()

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

	for _, password := range []configopaque.String{"", "wrong"} {
		host := &statusHost{}
		exp := r.newExporter(e.URL(t), host, func(c *genaiclickhouse.Config) { c.Password = password })
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
