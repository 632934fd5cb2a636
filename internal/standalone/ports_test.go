package standalone

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/internal/daemon"
)

// Ports that are taken are told of, all of them, while the folder is as it was.
func TestTakenPortsAreToldOfBeforeTheFolderIsTouched(t *testing.T) {
	taken := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	grpc, ui, dir := taken(), taken(), filepath.Join(t.TempDir(), "data")
	err := Run(t.Context(), Options{
		DataDir: dir, Collector: CollectorOptions{OTLPGRPC: grpc, OTLPHTTP: "127.0.0.1:0"}, Daemon: daemon.Options{UIListen: ui},
	}, nil)
	require.ErrorContains(t, err, "cannot listen on "+grpc)
	require.ErrorContains(t, err, "--otlp-grpc")
	require.ErrorContains(t, err, ui)
	require.ErrorContains(t, err, "--ui-listen")
	require.NoDirExists(t, dir)
}
