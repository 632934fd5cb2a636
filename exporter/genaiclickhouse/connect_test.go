package genaiclickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheNativeDialerSpeaksTLS checks the handshake, the server's name and the count of
// bytes; the native protocol itself is the driver's.
func TestTheNativeDialerSpeaksTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	sent := 0
	dial := dialer(&tls.Config{RootCAs: roots}, false, func(n int) { sent += n })
	conn, err := dial(context.Background(), server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "hello")
	require.NoError(t, conn.Close())
	require.Greater(t, sent, 100, "the handshake counts too")

	_, err = dialer(&tls.Config{RootCAs: x509.NewCertPool()}, false, func(int) {})(context.Background(), server.Listener.Addr().String())
	require.ErrorContains(t, err, "certificate", "an unknown certificate is refused")
}
