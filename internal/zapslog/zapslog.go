// Package zapslog hands a collector component's zap records to a slog logger.
package zapslog

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// Core returns a zap core that writes to logger, so that one process has one log in
// one format.
func Core(logger *slog.Logger) zapcore.Core { return &core{logger: logger} }

type core struct {
	logger *slog.Logger
	fields []zapcore.Field
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Enabled asks the logger whether it wants records of this level.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.logger.Enabled(context.Background(), level(l))
}

// With keeps fields for the records to come.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{logger: c.logger, fields: append(append([]zapcore.Field(nil), c.fields...), fields...)}
}

// Check adds the core to a record it wants.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write passes one record on.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(append([]zapcore.Field(nil), c.fields...), fields...) {
		if f.Key == "resource" { // the collector's own identity, the same on each line
			continue
		}
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields)+1)
	attrs = append(attrs, slog.String("part", "collector"))
	for _, k := range slices.Sorted(maps.Keys(enc.Fields)) {
		attrs = append(attrs, slog.Any(k, enc.Fields[k]))
	}
	c.logger.LogAttrs(context.Background(), level(e.Level), e.Message, attrs...)
	return nil
}

// Sync has nothing to flush.
func (c *core) Sync() error { return nil }
