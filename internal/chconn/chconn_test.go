package chconn

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

func TestParseNamesWhatIsWrongAndHidesThePassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                 "no ClickHouse DSN",
		"ftp://u:topsecret@h:1/db":         `scheme "ftp"`,
		"clickhouse://u:topsecret@h:1\x7f": "not a URL",
	} {
		_, err := Parse(dsn, "driftline")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "topsecret")
	}
}

func TestParseNeverShowsPartOfAPasswordThatIsNotEncoded(t *testing.T) {
	for _, dsn := range []string{
		"clickhouse://u:77/et@127.0.0.1:1/d", // the port is a number, so that this is a URL
		"clickhouse://u:77?et@127.0.0.1:1/d",
		"clickhouse://u:77#et@127.0.0.1:1/d",
		"http://u:77/et?x=1@127.0.0.1:1/d",
		"http://u:77?a=et@127.0.0.1:1/d",
		"http://u:xx@77/et@127.0.0.1:1/d",
		"clickhouse://u:sec/et@127.0.0.1:1/d",
		"clickhouse://u:%zz77et@127.0.0.1:1/d",
	} {
		_, err := Parse(dsn, "driftline")
		require.ErrorContains(t, err, "must be URL-encoded", dsn)
		for _, part := range []string{"77", "et@", "sec", "xx"} {
			require.NotContains(t, err.Error(), part, dsn)
		}
	}
}

func TestParseTakesAnEncodedPassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"clickhouse://u:s%2Fe%3Fc%23r%40e%3At%25@127.0.0.1:1/d":                  "s/e?c#r@e:t%",
		"http://127.0.0.1:8123/d?username=u&password=s%2Fe@t&dial_timeout=200ms": "s/e@t",
	} {
		target, err := Parse(dsn, "driftline")
		require.NoError(t, err, dsn)
		require.Equal(t, "d", target.Database())
		require.Equal(t, want, target.options.Auth.Password)
		require.Equal(t, "u", target.options.Auth.Username)
	}
}

func TestParseReadsTheDatabase(t *testing.T) {
	target, err := Parse("clickhouse://u:p@h:9000/mine", "driftline")
	require.NoError(t, err)
	require.Equal(t, "mine", target.Database())
	target, err = Parse("http://h:8123", "driftline")
	require.NoError(t, err)
	require.Equal(t, "driftline", target.Database())
}

func TestOpenSaysWhatToDoWhenNothingListens(t *testing.T) {
	target, err := Parse("http://u:topsecret@127.0.0.1:1/db", "driftline")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = target.Open(ctx)
	require.True(t, Unreachable(err), err)
	require.ErrorContains(t, err, "ClickHouse at 127.0.0.1:1 does not answer")
	require.ErrorContains(t, err, "check that it runs")
	require.NotContains(t, err.Error(), "topsecret")
}

func TestARefusalIsNotUnreachable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Code: 516. DB::Exception: u: Authentication failed", http.StatusForbidden)
	}))
	defer server.Close()
	target, err := Parse(server.URL, "driftline")
	require.NoError(t, err)
	_, err = target.Open(context.Background())
	require.ErrorContains(t, err, "Authentication failed")
	require.False(t, Unreachable(err), err)
	require.False(t, Unreachable(nil))
	require.True(t, Unreachable(&url.Error{Op: "Post", URL: server.URL, Err: os.ErrDeadlineExceeded}), "a server that accepts and says nothing")
	require.True(t, Unreachable(context.DeadlineExceeded))
	require.True(t, Unreachable(fmt.Errorf("ping: %w", clickhouse.ErrAcquireConnTimeout)))
	require.False(t, Unreachable(context.Canceled))
}

// A port that accepts and says nothing, as a server that hangs, is waited for over either protocol.
func TestASilentServerIsUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	require.NoError(t, err)
	defer silent.Close()
	for _, scheme := range []string{"clickhouse", "http"} {
		target, err := Parse(scheme+"://u:topsecret@"+silent.Addr().String(), "driftline")
		require.NoError(t, err)
		target.options.DialTimeout = 50 * time.Millisecond
		_, err = target.Open(context.Background())
		require.True(t, Unreachable(err), "%s: %v", scheme, err)
		require.NotContains(t, err.Error(), "topsecret")
	}
}

// A proxy that answers for a server that is not up yet is waited for, and one that refuses is not.
func TestAProxyBeforeASleepingServerIsUnreachable(t *testing.T) {
	for status, want := range map[int]bool{http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true, http.StatusNotFound: false, http.StatusInternalServerError: false, http.StatusUnauthorized: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		target, err := Parse(server.URL, "driftline")
		require.NoError(t, err)
		_, err = target.Open(context.Background())
		server.Close()
		require.Error(t, err)
		require.Equal(t, want, Unreachable(err), "HTTP %d: %v", status, err)
	}
}
