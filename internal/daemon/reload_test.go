package daemon

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/schema"
)

// A server that accepts and says nothing holds the start up; a signal that comes meanwhile
// must not end the process, and is not lost.
func TestSettingsAreReadAgainAfterASignalDuringTheStart(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	var once sync.Once
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			once.Do(func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGHUP) })
			_ = c.Close()
		}
	}()
	target, err := chconn.Parse("clickhouse://"+server.Addr().String(), "driftline")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reloads := 0
	err = Run(ctx, Options{
		Target: target, Schema: schema.Options{Database: "driftline"}, UIListen: "127.0.0.1:0", Detector: detector.DefaultConfig(), Clock: clock.System(), Logger: slog.New(slog.DiscardHandler),
		Reload: func() (detector.Config, error) {
			reloads++
			cancel()
			return detector.DefaultConfig(), nil
		},
	}, func(string) {})
	require.NoError(t, err)
	require.Equal(t, 1, reloads)
}
