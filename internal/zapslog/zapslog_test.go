package zapslog

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestRecordsKeepLevelAndFields(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	z := zap.New(Core(logger)).With(zap.String("resource", "left out"), zap.Int("n", 3))
	z.Debug("quiet")
	z.Warn("loud", zap.String("why", "test"))
	require.NotContains(t, out.String(), "quiet")
	require.NotContains(t, out.String(), "left out")
	require.Contains(t, out.String(), `level=WARN msg=loud part=collector n=3 why=test`)
}
