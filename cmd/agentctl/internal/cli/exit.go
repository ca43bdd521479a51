// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"time"
)

// The exit codes of agentctl.
const (
	ExitOK      = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitTimeout = 3 // what was asked has been written, but the agents did not finish in time
	// Of the commands that answer a question: the documentation of agentctl says what they mean for each.
	ExitUnmatched = 4 // rules explain: nothing is selected; doctor: warnings; export: something is missing
	ExitBlocked   = 5 // problems
	ExitUnknown   = 6 // cannot be told
)

// ExitCode is the exit code that an error of a command stands for.
func ExitCode(err error) int {
	var usage usageError
	var timeout *TimeoutError
	var answer *AnswerError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &timeout):
		return ExitTimeout
	case errors.As(err, &answer):
		return answer.Code
	default:
		return ExitFailed
	}
}

// usageError is a wrong command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// Usagef is an error of the command line: it names the flag or argument, and what would be right.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...)}
}

// AnswerError is an answer that is not yes: the command could be done, and Code tells what it found.
type AnswerError struct {
	Code int
	Text string
}

func (e *AnswerError) Error() string { return e.Text }

// Answerf returns an AnswerError.
func Answerf(code int, format string, args ...any) error {
	return &AnswerError{code, fmt.Sprintf(format, args...)}
}

// TimeoutError says that what was written did not take effect in time.
type TimeoutError struct {
	Text    string
	Missing []string // one line each
}

func (e *TimeoutError) Error() string { return e.Text }

// CheckTimeout refuses a --timeout that leaves no time.
func CheckTimeout(timeout time.Duration) error {
	if timeout <= 0 {
		return Usagef("--timeout must be more than 0, and is %s", timeout)
	}
	return nil
}
