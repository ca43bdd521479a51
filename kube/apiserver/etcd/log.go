// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger is for parts of etcd that a command uses: what they say beside their error is for those who debug them.
func Logger(log *slog.Logger) *zap.Logger { return logger(log, &atomic.Bool{}) }

func logger(log *slog.Logger, ready *atomic.Bool) *zap.Logger {
	return zap.New(&core{log: log.With("component", "etcd"), ready: ready})
}

// Contain calls a part of etcd that ends the process when it cannot write to the disk, and returns an error instead. The
// goroutine that met the error never ends: let the process end soon.
func Contain(log *slog.Logger, f func(*zap.Logger) error) error {
	fatal, done := make(failed, 1), make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("etcd: %v", r)
			}
		}()
		done <- f(Logger(log).WithOptions(zap.WithFatalHook(fatal)))
	}()
	select {
	case err := <-done:
		return err
	case err := <-fatal:
		return err
	}
}

// failed gets the first fatal entry of a log.
type failed chan error

// OnWrite implements zapcore.CheckWriteHook. It does not return, since who logs a fatal entry does not go on.
func (f failed) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("etcd: %s", e.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok {
			err = fmt.Errorf("etcd: %s: %w", e.Message, cause)
		}
	}
	select {
	case f <- err:
	default:
	}
	select {}
}

// core writes what etcd logs to a slog.Logger. What etcd calls information is for those who debug it, and so is what it
// says while it starts and ends: an error of the start is returned, and the rest is about how etcd is set up here.
type core struct {
	log   *slog.Logger
	ready *atomic.Bool
}

func (c *core) level(of zapcore.Level) slog.Level {
	switch {
	case of > zapcore.ErrorLevel: // the process ends
		return slog.LevelError
	case !c.ready.Load():
		return slog.LevelDebug
	case of == zapcore.ErrorLevel:
		return slog.LevelError
	case of == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// Enabled implements zapcore.Core.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.log.Enabled(context.Background(), c.level(l)) //nolint:forbidigo // zap hands on no context
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log.With(args(fields)...), ready: c.ready}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core. After a fatal entry zap ends the process with code 1.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.Log(context.Background(), c.level(e.Level), e.Message, args(fields)...) //nolint:forbidigo,sloglint // as above, and the words are etcd's
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }

func args(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	var out []any
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		out = append(out, key, encoder.Fields[key])
	}
	return out
}
