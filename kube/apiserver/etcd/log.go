// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger is for parts of etcd that a command uses: what they say beside their error is for those who debug them.
func Logger(log *slog.Logger) *zap.Logger { return logger(log, &atomic.Bool{}, nil) }

func logger(log *slog.Logger, ready *atomic.Bool, fatal func(error)) *zap.Logger {
	return zap.New(&core{log: log.With("component", "etcd"), ready: ready, fatal: fatal})
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
	select {
	case f <- fmt.Errorf("etcd: %w", reason(e.Message, fields)):
	default:
	}
	select {}
}

// core writes what etcd logs to a slog.Logger. What etcd calls information is for those who debug it, and so is what it
// says while it starts and ends: an error of the start is returned, and the rest is about how etcd is set up here.
type core struct {
	log   *slog.Logger
	ready *atomic.Bool
	fatal func(error) // is called before etcd ends the process, or panics; nil for nothing
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
	return &core{log: c.log.With(args(fields)...), ready: c.ready, fatal: c.fatal}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core. After a fatal entry zap ends the process with code 1, and after a panic one it panics: as
// when the disk is full.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level > zapcore.DPanicLevel && c.fatal != nil {
		c.fatal(reason(e.Message, fields))
	}
	c.log.Log(context.Background(), c.level(e.Level), e.Message, args(fields)...) //nolint:forbidigo,sloglint // as above, and the words are etcd's
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }

// reason is what an entry says, with its error.
func reason(message string, fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			return fmt.Errorf("%s: %w", message, err)
		}
	}
	return errors.New(message)
}

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
